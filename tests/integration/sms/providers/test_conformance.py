"""What every provider of the registry does alike, against a far end that speaks its API strictly."""

import logging
import re
import socket
import ssl
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from urllib.parse import unquote

import pytest
import trustme

from messaging.category import ErrorCategory, MarkerCode
from messaging.errors import DeliveryError, PreparationError
from messaging.http.client import HttpClient, HttpLimits
from messaging.sms.providers import registry
from messaging.sms.providers.base import Accepted, Rejected, SmsProvider
from tests.far_end.provider_server import Fault, ProviderServer, Reply, serving
from tests.integration.sms.providers.subjects import (
    BAD_NUMBER,
    CARRIER,
    NUMBER,
    ODD_EXT_CONFIGS,
    SUBJECTS,
    Carrier,
    Refusal,
    Subject,
)

LIMITS = HttpLimits(connect_seconds=5, read_seconds=5, reply_seconds=5)
#: For what never comes.
NO_REPLY = HttpLimits(connect_seconds=5, read_seconds=5, reply_seconds=0.2)
NO_CONNECTION = HttpLimits(connect_seconds=0.2, read_seconds=5, reply_seconds=5)
#: Those that can be asked what they took.
ASKED = [subject for subject in SUBJECTS if subject.can_find_sent]


class ClaimWasTooOld(Exception):
    """What a second check raises."""


@pytest.fixture(scope="module", autouse=True)
def _an_application_registers_its_own() -> None:
    if CARRIER.type not in registry.types():
        registry.register(Carrier())


@pytest.fixture(params=SUBJECTS, ids=lambda subject: subject.type.lower())
def subject(request: pytest.FixtureRequest) -> Subject:
    found: Subject = request.param
    return found


@pytest.fixture
def provider(subject: Subject) -> SmsProvider:
    return registry.provider(subject.type)


@pytest.fixture
def server(subject: Subject) -> Iterator[ProviderServer]:
    with serving(subject.api()) as server:
        yield server


@pytest.fixture
def client(authorities: ssl.SSLContext) -> Iterator[HttpClient]:
    client = HttpClient(LIMITS, verify=authorities)
    yield client
    client.close()


@pytest.fixture
def hasty_client(authorities: ssl.SSLContext) -> Iterator[HttpClient]:
    client = HttpClient(NO_REPLY, verify=authorities)
    yield client
    client.close()


def nothing() -> None:
    """A second check that passes."""


def too_old() -> None:
    raise ClaimWasTooOld


def test_every_provider_of_the_registry_is_a_subject() -> None:  # sms.md P38
    assert {subject.type for subject in SUBJECTS} == {*registry.BUILT_IN, CARRIER.type}


def test_a_message_is_accepted(
    subject: Subject, provider: SmsProvider, server: ProviderServer, client: HttpClient
) -> None:  # sms.md P36
    result = provider.send(subject.config_at(server.url), subject.message, client, nothing)

    (taken,) = server.api.taken
    assert result == Accepted(taken.id)
    assert taken.number == NUMBER.removeprefix("+")
    assert (taken.text, taken.reference) == (subject.text, subject.reference)


def test_a_slash_at_the_end_of_the_endpoint_changes_nothing(
    subject: Subject, provider: SmsProvider, server: ProviderServer, client: HttpClient
) -> None:
    config = subject.config_at(server.url, api_endpoint=f" {server.url}{subject.path}// ")

    assert isinstance(provider.send(config, subject.message, client, nothing), Accepted)


def test_a_wrong_key_is_refused_for_good(
    subject: Subject, provider: SmsProvider, server: ProviderServer, client: HttpClient
) -> None:
    config = subject.config_at(server.url, **{subject.key_field: "wrong-key-9999"})

    result = provider.send(config, subject.message, client, nothing)

    assert isinstance(result, Rejected)
    assert result.category is ErrorCategory.AUTH
    assert result.text
    assert "wrong-key-9999" not in repr(result)
    assert not server.api.taken


def test_a_wrong_number_is_refused_and_not_repeated_in_the_text(
    subject: Subject, provider: SmsProvider, server: ProviderServer, client: HttpClient
) -> None:
    result = provider.send(subject.config_at(server.url), subject.message_to(BAD_NUMBER), client, nothing)

    assert isinstance(result, Rejected)
    assert (result.code, result.category) == (subject.bad_number_code, ErrorCategory.INVALID_INPUT)
    assert BAD_NUMBER.removeprefix("+") not in result.text
    assert not server.api.taken


@pytest.mark.parametrize(
    ("subject", "refusal"),
    [
        pytest.param(subject, refusal, id=f"{subject.type.lower()}-{refusal.name}")
        for subject in SUBJECTS
        for refusal in subject.refusals
    ],
)
def test_refusals_are_taken_for_what_they_are(
    subject: Subject, refusal: Refusal, server: ProviderServer, client: HttpClient
) -> None:  # class-03, class-04, class-05
    server.next.append(refusal.reply)

    result = registry.provider(subject.type).send(subject.config_at(server.url), subject.message, client, nothing)

    assert isinstance(result, Rejected)
    assert (result.code, result.category) == (refusal.code, refusal.category)
    assert result.retry_after_seconds == refusal.retry_after_seconds
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("status", "category"),
    [
        (400, ErrorCategory.INVALID_INPUT),
        (401, ErrorCategory.AUTH),
        (402, ErrorCategory.AUTH),
        (403, ErrorCategory.AUTH),
        (404, ErrorCategory.AUTH),
        (405, ErrorCategory.INVALID_INPUT),
        (406, ErrorCategory.INVALID_INPUT),
        (408, ErrorCategory.TRANSIENT),
        (409, ErrorCategory.TRANSIENT),
        (413, ErrorCategory.INVALID_INPUT),
        (415, ErrorCategory.INVALID_INPUT),
        (422, ErrorCategory.INVALID_INPUT),
        (425, ErrorCategory.TRANSIENT),
        (429, ErrorCategory.QUOTA),
        (500, ErrorCategory.TRANSIENT),
        (502, ErrorCategory.TRANSIENT),
        (503, ErrorCategory.TRANSIENT),
        (504, ErrorCategory.TRANSIENT),
    ],
)
def test_a_page_instead_of_an_answer_is_judged_by_its_status(
    subject: Subject,
    provider: SmsProvider,
    server: ProviderServer,
    client: HttpClient,
    status: int,
    category: ErrorCategory,
) -> None:  # sms.md section 6.2
    server.next.append(Reply(status, "<html><h1>nginx</h1></html>"))

    result = provider.send(subject.config_at(server.url), subject.message, client, nothing)

    assert isinstance(result, Rejected)
    assert (result.code, result.category) == (f"HTTP_{status}", category)


@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_a_redirect_is_a_wrong_endpoint_and_not_followed(
    subject: Subject, provider: SmsProvider, server: ProviderServer, client: HttpClient, status: int
) -> None:
    with serving(subject.api()) as elsewhere:
        server.next.append(Reply(status, b"", {"Location": f"{elsewhere.url}{subject.path}/"}))

        result = provider.send(subject.config_at(server.url), subject.message, client, nothing)

        assert isinstance(result, Rejected)
        assert (result.code, result.category) == (f"HTTP_{status}", ErrorCategory.AUTH)
        assert not elsewhere.requests


@pytest.mark.parametrize(
    ("subject", "reply"),
    [
        pytest.param(subject, reply, id=f"{subject.type.lower()}-{number}")
        for subject in SUBJECTS
        for number, reply in enumerate(subject.unreadable)
    ],
)
def test_a_success_that_names_no_message_is_uncertain(
    subject: Subject, reply: Reply, server: ProviderServer, client: HttpClient
) -> None:
    server.next.append(reply)

    with pytest.raises(DeliveryError) as raised:
        registry.provider(subject.type).send(subject.config_at(server.url), subject.message, client, nothing)

    assert (raised.value.code, raised.value.category) == ("BAD_RESPONSE", ErrorCategory.UNKNOWN)
    assert raised.value.is_uncertain


def test_an_endless_reply_is_cut(subject: Subject, provider: SmsProvider, server: ProviderServer) -> None:
    client = HttpClient(LIMITS, max_reply_bytes=1000)
    server.next.append(Reply(500, b"x" * 5_000_000))

    result = provider.send(subject.config_at(server.url), subject.message, client, nothing)

    assert isinstance(result, Rejected)
    assert len(result.text) <= 1000
    assert isinstance(provider.send(subject.config_at(server.url), subject.message, client, nothing), Accepted)
    client.close()


@pytest.mark.parametrize("fault", [Fault.NO_REPLY, Fault.DRIP])
def test_a_written_request_without_a_reply_in_time_is_uncertain(
    subject: Subject, provider: SmsProvider, server: ProviderServer, hasty_client: HttpClient, fault: Fault
) -> None:  # sms.md P37
    server.next.append(fault)

    with pytest.raises(DeliveryError) as raised:
        provider.send(subject.config_at(server.url), subject.message, hasty_client, nothing)

    assert (raised.value.code, raised.value.category) == ("HTTP_NO_REPLY", ErrorCategory.TRANSIENT)
    assert raised.value.is_uncertain


@pytest.mark.parametrize("fault", [Fault.RESET_AFTER, Fault.CLOSE_AFTER, Fault.HALF_REPLY, Fault.GARBAGE])
def test_a_written_request_whose_connection_ends_is_uncertain(
    subject: Subject, provider: SmsProvider, server: ProviderServer, client: HttpClient, fault: Fault
) -> None:
    server.next.append(fault)

    with pytest.raises(DeliveryError) as raised:
        provider.send(subject.config_at(server.url), subject.message, client, nothing)

    assert (raised.value.code, raised.value.is_uncertain) == ("HTTP_NO_REPLY", True)
    assert isinstance(provider.send(subject.config_at(server.url), subject.message, client, nothing), Accepted)


def test_a_provider_that_is_away_is_tried_again(subject: Subject, provider: SmsProvider, client: HttpClient) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        config = subject.config_at(f"http://127.0.0.1:{unused.getsockname()[1]}")
        with pytest.raises(DeliveryError) as raised:
            provider.send(config, subject.message, client, nothing)

    assert (raised.value.code, raised.value.category) == ("HTTP_CONNECT", ErrorCategory.TRANSIENT)
    assert not raised.value.is_uncertain


def test_a_handshake_that_never_ends_is_a_time_out(
    subject: Subject, provider: SmsProvider, authorities: ssl.SSLContext
) -> None:  # sms.md P37
    client = HttpClient(NO_CONNECTION, verify=authorities)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        config = subject.config_at(f"https://127.0.0.1:{silent.getsockname()[1]}")
        with pytest.raises(DeliveryError) as raised:
            provider.send(config, subject.message, client, nothing)

    assert (raised.value.code, raised.value.category) == ("HTTP_TIMEOUT", ErrorCategory.TRANSIENT)
    assert not raised.value.is_uncertain


def test_an_unknown_certificate_is_for_an_operator(subject: Subject, provider: SmsProvider, client: HttpClient) -> None:
    authority = trustme.CA()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    with serving(subject.api(), context) as server:
        with pytest.raises(DeliveryError) as raised:
            provider.send(subject.config_at(server.url), subject.message, client, nothing)
        assert (raised.value.code, raised.value.category) == ("HTTP_TLS", ErrorCategory.AUTH)
        assert not server.requests

        trusting = ssl.create_default_context()
        authority.configure_trust(trusting)
        known = HttpClient(LIMITS, verify=trusting)
        assert isinstance(provider.send(subject.config_at(server.url), subject.message, known, nothing), Accepted)
        known.close()


def test_a_claim_too_old_for_the_body_sends_nothing(
    subject: Subject, provider: SmsProvider, server: ProviderServer, client: HttpClient
) -> None:  # sms.md section 6.1, PROTOCOL.md section 2
    with pytest.raises(ClaimWasTooOld):
        provider.send(subject.config_at(server.url), subject.message, client, too_old)

    assert isinstance(provider.send(subject.config_at(server.url), subject.message, client, nothing), Accepted)
    assert len(server.requests) == 1


def test_the_second_check_comes_once_the_connection_stands(
    subject: Subject, provider: SmsProvider, server: ProviderServer, client: HttpClient
) -> None:
    seen: list[tuple[int, int]] = []

    provider.send(
        subject.config_at(server.url), subject.message, client, lambda: seen.append((len(server.requests), 0))
    )

    assert seen == [(0, 0)]
    assert len(server.requests) == 1


def test_connections_are_reused(
    subject: Subject, provider: SmsProvider, server: ProviderServer, client: HttpClient
) -> None:
    config = subject.config_at(server.url)
    for _ in range(5):
        provider.send(config, subject.message, client, nothing)
    server.next.append(Reply(400, {}))
    provider.send(config, subject.message, client, nothing)
    provider.send(config, subject.message, client, nothing)

    assert (len(server.requests), server.connections) == (7, 1)


def test_a_connection_the_server_ended_is_not_written_to(
    subject: Subject, provider: SmsProvider, server: ProviderServer, client: HttpClient
) -> None:
    config = subject.config_at(server.url)
    server.next.append(Reply(500, b"{}", {"Connection": "close"}))
    provider.send(config, subject.message, client, nothing)

    assert isinstance(provider.send(config, subject.message, client, nothing), Accepted)
    assert server.connections == 2


def test_threads_share_provider_and_client(
    subject: Subject, provider: SmsProvider, server: ProviderServer, client: HttpClient
) -> None:
    config = subject.config_at(server.url)
    threads = 8
    together = threading.Barrier(threads)

    def send(number: int) -> str | None:
        together.wait(10)
        message = replace(subject.message, record_id=number)
        result = provider.send(config, message, client, nothing)
        assert isinstance(result, Accepted)
        return result.provider_message_id

    with ThreadPoolExecutor(threads) as pool:
        ids = list(pool.map(send, range(1, threads + 1)))

    assert sorted(map(str, ids)) == sorted(str(taken.id) for taken in server.api.taken)
    assert len(set(ids)) == threads


def test_nothing_confidential_is_logged_or_raised(
    subject: Subject,
    provider: SmsProvider,
    server: ProviderServer,
    client: HttpClient,
    hasty_client: HttpClient,
    caplog: pytest.LogCaptureFixture,
) -> None:  # operate.md O60
    caplog.set_level(logging.DEBUG)
    config = subject.config_at(server.url)
    echo = " ".join([*subject.secrets, subject.message.content, NUMBER, NUMBER.removeprefix("+")])
    errors = [repr(provider.send(config, subject.message, client, nothing))]
    server.next.append(Reply(400, {"code": echo, "message": echo, "text": echo, "description": echo}))
    refused = provider.send(config, subject.message, client, nothing)
    assert isinstance(refused, Rejected)
    errors.append(refused.text)
    for fault in (Fault.RESET_AFTER, Fault.NO_REPLY):
        server.next.append(fault)
        with pytest.raises(DeliveryError) as raised:
            provider.send(config, subject.message, hasty_client, nothing)
        errors.append(str(raised.value))
    errors += [repr(config), repr(subject.message), *(str(record.__dict__) for record in caplog.records)]

    for confidential in [*subject.secrets, subject.message.content]:
        assert confidential not in "\n".join(errors)
    logged = "\n".join(f"{record.getMessage()} {record.__dict__}" for record in caplog.records)
    assert NUMBER.removeprefix("+") not in logged


@pytest.mark.parametrize("value", [None, "", "  "])
def test_a_missing_key_is_found_without_a_call(
    subject: Subject, provider: SmsProvider, server: ProviderServer, client: HttpClient, value: str | None
) -> None:
    config = subject.config_at(server.url, api_key=value)

    for attempt in (
        lambda: provider.check_config(config),
        lambda: provider.check(config, subject.message),
        lambda: provider.send(config, subject.message, client, nothing),
    ):
        with pytest.raises(PreparationError) as raised:
            attempt()
        assert raised.value.marker is MarkerCode.PROVIDER_CONFIG_INVALID
    assert not server.requests


@pytest.mark.parametrize(
    "endpoint",
    ["api.example.com", "ftp://example.com", "https://", "https://a@b.example", "https://x/?a=1", "http://x:99999"],
)
def test_an_endpoint_that_is_no_address_is_found_without_a_call(
    subject: Subject, provider: SmsProvider, endpoint: str
) -> None:
    with pytest.raises(PreparationError) as raised:
        provider.check_config(subject.config_at("", api_endpoint=endpoint))

    assert raised.value.marker is MarkerCode.PROVIDER_CONFIG_INVALID


@pytest.mark.parametrize("key", ["line\nbreak", "clé", "null\0"])
def test_a_key_that_no_header_can_hold_is_no_error_of_the_network(
    subject: Subject, provider: SmsProvider, server: ProviderServer, client: HttpClient, key: str
) -> None:
    config = subject.config_at(server.url, api_key=key)
    try:
        result: Rejected | Accepted | PreparationError = provider.send(config, subject.message, client, nothing)
    except PreparationError as exc:
        result = exc

    assert key not in str(result)
    if isinstance(result, PreparationError):
        assert result.marker is MarkerCode.PROVIDER_CONFIG_INVALID
        assert result.__cause__ is None
    else:
        # Where the key goes in the body, or encoded, the provider says so itself.
        assert isinstance(result, Rejected)
        assert result.category is ErrorCategory.AUTH


@pytest.mark.parametrize("ext_config", ODD_EXT_CONFIGS)
def test_whatever_ext_config_holds_is_survived(
    subject: Subject, provider: SmsProvider, server: ProviderServer, client: HttpClient, ext_config: object
) -> None:
    config = subject.config_at(server.url, ext_config=ext_config)
    if ext_config in subject.refused_ext_configs:
        with pytest.raises(PreparationError) as raised:
            provider.send(config, subject.message, client, nothing)
        assert raised.value.marker is MarkerCode.PROVIDER_CONFIG_INVALID
    else:
        assert isinstance(provider.send(config, subject.message, client, nothing), Accepted)


@pytest.mark.parametrize("status", [400, 500])
@pytest.mark.parametrize(
    "said", [None, [], "text", 7, {"code": None}, {"errors": None}, {"code": [1]}, {"messages": [None]}, [[[[]]]]]
)
def test_a_refusal_of_any_shape_is_survived(
    subject: Subject, provider: SmsProvider, server: ProviderServer, client: HttpClient, status: int, said: object
) -> None:
    body = b"null" if said is None else said
    server.next.append(Reply(status, body, {"Content-Type": "application/json"}))

    result = provider.send(subject.config_at(server.url), subject.message, client, nothing)

    assert isinstance(result, Rejected)
    assert result.code
    assert result.text
    assert result.category is not None


def test_a_look_up_is_offered_only_where_it_works(
    subject: Subject, provider: SmsProvider, server: ProviderServer, client: HttpClient
) -> None:
    config = subject.config_at(server.url)
    since = datetime.now(UTC) - timedelta(seconds=2)  # of some the times are whole seconds

    assert not provider.find_sent(config, subject.message, client, since)
    sent = provider.send(config, subject.message, client, nothing)
    found = provider.find_sent(config, subject.message, client, since)

    assert provider.can_find_sent == subject.can_find_sent
    assert list(found) == ([sent if subject.finds_id else Accepted(None)] if provider.can_find_sent else [])


def test_a_look_up_finds_no_other_message(
    subject: Subject, provider: SmsProvider, server: ProviderServer, client: HttpClient
) -> None:
    config = subject.config_at(server.url)
    since = datetime.now(UTC) - timedelta(seconds=2)
    provider.send(config, subject.message, client, nothing)
    others = [
        subject.message_to("+14155550188"),
        replace(subject.message, content="Something else", external_template_id="SMS_2", record_id=4712),
    ]

    assert [list(provider.find_sent(config, other, client, since)) for other in others] == [[], []]


@pytest.mark.parametrize("subject", ASKED, ids=lambda subject: subject.type.lower(), indirect=True)
@pytest.mark.parametrize("reply", [Reply(200, b""), Reply(200, {}), Reply(200, b"[]"), Reply(200, "<html>ok</html>")])
def test_a_look_up_that_cannot_be_read_is_no_answer(
    subject: Subject, provider: SmsProvider, server: ProviderServer, client: HttpClient, reply: Reply
) -> None:
    server.next.append(reply)

    with pytest.raises(DeliveryError) as caught:
        provider.find_sent(subject.config_at(server.url), subject.message, client, datetime.now(UTC))

    assert not caught.value.is_uncertain


@pytest.mark.parametrize("subject", ASKED, ids=lambda subject: subject.type.lower(), indirect=True)
def test_a_refused_or_lost_look_up_is_an_error_and_no_answer(
    subject: Subject, provider: SmsProvider, server: ProviderServer, client: HttpClient
) -> None:
    wrong = subject.config_at(server.url, **{subject.key_field: "wrong-key-0001"})
    with pytest.raises(DeliveryError) as refused:
        provider.find_sent(wrong, subject.message, client, datetime.now(UTC))
    server.next.append(Fault.CLOSE_AFTER)
    with pytest.raises(DeliveryError) as lost:
        provider.find_sent(subject.config_at(server.url), subject.message, client, datetime.now(UTC))

    assert refused.value.category is ErrorCategory.AUTH
    assert not refused.value.is_uncertain
    assert not lost.value.is_uncertain


def test_an_account_is_tried_without_sending_anything(
    subject: Subject, provider: SmsProvider, server: ProviderServer, client: HttpClient
) -> None:
    assert provider.can_try_account == subject.can_try_account

    assert provider.try_account(subject.config_at(server.url), client) is None

    assert len(server.requests) == (1 if subject.can_try_account else 0)
    assert server.api.taken == []


@pytest.mark.parametrize(
    "subject", [s for s in SUBJECTS if s.can_try_account], ids=lambda subject: subject.type.lower(), indirect=True
)
def test_a_wrong_key_is_told_when_the_account_is_tried(
    subject: Subject, provider: SmsProvider, server: ProviderServer, client: HttpClient
) -> None:
    refused = provider.try_account(subject.config_at(server.url, **{subject.key_field: "wrong-key-0001"}), client)

    assert refused is not None
    assert refused.category is ErrorCategory.AUTH
    assert "wrong-key-0001" not in refused.text
    assert refused.text
    server.next.append(Fault.CLOSE_AFTER)
    with pytest.raises(DeliveryError) as lost:
        provider.try_account(subject.config_at(server.url), client)
    assert not lost.value.is_uncertain


def test_receipts_go_to_us_unless_the_account_says_where(
    subject: Subject, provider: SmsProvider, server: ProviderServer, client: HttpClient
) -> None:
    ours, theirs = "https://msg.example.com/hooks/sms/x/t0ken", "https://example.com/receipts"
    ext = {**(subject.config.get("ext_config") or {}), "statusCallbackUrl": theirs}
    asked = []
    for changes in ({"receipt_url": ours}, {"receipt_url": ours, "ext_config": ext}, {}):
        provider.send(subject.config_at(server.url, **changes), subject.message, client, nothing)
        body = unquote(server.requests[-1].body.decode())
        asked.append((ours in body, theirs in body))

    is_told = provider.takes_callback
    assert asked == [(is_told, False), (False, is_told), (False, False)]


def test_label_and_type_are_one_name(subject: Subject, provider: SmsProvider) -> None:  # sms.md section 6.1, P38
    assert provider.type == subject.type
    assert provider.label == subject.type.lower()
    assert re.fullmatch("[a-z0-9]+", provider.label)
    assert registry.by_label(provider.label) is provider
    assert registry.provider(subject.type.title()) is provider


def test_a_receipt_answered_is_a_success(provider: SmsProvider) -> None:
    status, media_type, _ = provider.receipt_reply()

    assert 200 <= status < 300
    assert "/" in media_type
