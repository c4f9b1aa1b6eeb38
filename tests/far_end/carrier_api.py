"""A carrier's API of an application's own: what `Carrier` of the conformance suite speaks to."""

import re

from tests.far_end.provider_server import Reply, Request, Taken

TOKEN = "carrier-token-0001"


class CarrierApi:
    """Accepts what is well formed."""

    def __init__(self) -> None:
        self.taken: list[Taken] = []

    def answer(self, request: Request) -> Reply:
        if request.path != "/v1/texts" or request.method != "POST":
            return Reply(404, {"code": "not_found", "text": "no such path"})
        if request.headers.get("x-token") != TOKEN:
            return Reply(401, {"code": "bad_token", "text": "no such token"})
        asked = request.json()
        if request.media_type != "application/json" or not isinstance(asked, dict):
            return Reply(415, {"code": "no_json", "text": "JSON is expected"})
        if asked.keys() != {"number", "text", "ref"}:
            return Reply(400, {"code": "bad_fields", "text": f"not these: {', '.join(asked)}"})
        if re.fullmatch(r"\+[1-9]\d{6,14}", asked["number"]) is None or asked["number"].endswith("5550001"):
            return Reply(400, {"code": "bad_number", "text": f"{asked['number']} is no number"})
        taken = Taken(f"c-{len(self.taken)}", asked["number"].removeprefix("+"), asked["text"], None, asked["ref"])
        self.taken.append(taken)
        return Reply(202, {"id": taken.id})
