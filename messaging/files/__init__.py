"""Stored files: what goes with mails, in PostgreSQL or behind fsspec (`FILE_STORE_URL`)."""

from messaging.files.models import STORED_FILE, StoredFile
from messaging.files.names import clean_file_name

__all__ = ["STORED_FILE", "StoredFile", "clean_file_name"]
