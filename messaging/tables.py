"""All tables: importing this module fills the metadata that the database is compared with."""

import messaging.access.models
import messaging.audit
import messaging.batches.models
import messaging.delivery.dead_letter
import messaging.figures.models
import messaging.files
import messaging.inbox.models
import messaging.mail.models
import messaging.provisioning
import messaging.quota
import messaging.receive.models
import messaging.retention.models
import messaging.sandbox.models
import messaging.sms.models
import messaging.suppression
import messaging.templates.models
import messaging.webhooks.models  # noqa: F401
