"""Stored files: what goes with mails, in PostgreSQL or behind fsspec (`FILE_STORE_URL`)."""

from messaging.files.models import STORED_FILE, StoredFile
from messaging.files.names import clean_file_name
from messaging.files.store import FileInfo, FileStore, LaidFile, readable_by

__all__ = ["STORED_FILE", "FileInfo", "FileStore", "LaidFile", "StoredFile", "clean_file_name", "readable_by"]
