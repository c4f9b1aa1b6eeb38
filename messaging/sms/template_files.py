"""Templates of text messages as files, a folder each (`messaging.templates.folders`):

order-shipped/template.yaml   code, name, switches and the cap of segments
order-shipped/content.txt     the text, as it is stored; a missing file is null
"""

from messaging.sms.models import SmsTemplate
from messaging.sms.template_checks import DEFAULTS, FIELDS, MAX_SOURCE_CHARS, check_template
from messaging.templates.folders import Kind

SMS_TEMPLATES = Kind(
    what="SMS template",
    model=SmsTemplate,
    fields=FIELDS,
    source_files={"content": "content.txt"},
    # UTF-8 takes up to four for a character.
    max_source_bytes=4 * MAX_SOURCE_CHARS,
    defaults=DEFAULTS,
    check=check_template,
)
