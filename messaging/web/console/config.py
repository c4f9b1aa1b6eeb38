"""Configurations of every kind: a list with those that are on and all, a form, copies, switches; no secret is shown."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, cast

from fastapi import Request
from sqlalchemy.orm import Session
from starlette.responses import Response

from messaging import config_admin
from messaging.access.roles import Permission
from messaging.config_kinds import Kind
from messaging.config_lists import MAX_PAGE, MAX_SEARCH_CHARS, Active, Lines
from messaging.errors import ChangedMeanwhile, ConfigRejected, RecordNotFound, StateError
from messaging.web.api.resource import Caller, DbSession, needs
from messaging.web.api.shapes import Given, Id
from messaging.web.auth import Identity
from messaging.web.console import asking, forms
from messaging.web.console.asking import Asked
from messaging.web.console.forms import Field, Form, Posted
from messaging.web.console.pages import Pages, done, page, url
from messaging.web.console.tables import Action, Cell, Column, Filter, Listing, Tab, pages_of, switched

#: Rows of a page.
SIZE = 50

ACTIVE_TABS = (Tab("active", None, "Active"), Tab("active", "all", "All"))


def page_number(text: str) -> int:
    """Which page of a list. Raises: ValueError."""
    if not text.isdecimal() or not 1 <= int(text[:12]) <= MAX_PAGE:
        raise ValueError("is not the number of a page")
    return int(text)


def which_are_on(text: str) -> Active:
    """Those that are on, off, or all. Raises: ValueError."""
    try:
        return Active(text.lower())
    except ValueError:
        raise ValueError(f"is none of {', '.join(Active)}") from None


def searched(text: str) -> str:
    """A part of a name. Raises: ValueError."""
    if len(text) > MAX_SEARCH_CHARS:
        raise ValueError(f"has more than {MAX_SEARCH_CHARS} characters")
    return text


READERS: Mapping[str, asking.Reader] = {
    "active": which_are_on,
    "search": searched,
    "page": page_number,
}


@dataclass(frozen=True, kw_only=True)
class ConfigPages:
    """The pages of one kind of configuration."""

    routes: Pages
    #: Of its pages; its rows are below.
    path: str
    title: str
    #: What one is called.
    one: str
    kind: Kind[Any] | None
    given: type[Given]
    changed: type[Given]
    columns: Sequence[Column]
    list_rows: Callable[..., Lines[Any]]
    get: Callable[..., Any]
    add: Callable[..., Any]
    change: Callable[..., None]
    delete: Callable[..., None]
    copy: Callable[..., int] | None = None
    choose_default: Callable[..., None] | None = None
    #: What follows from deleting one.
    after_delete: str = "It cannot be brought back."
    labels: Mapping[str, str] = field(default_factory=dict)
    hints: Mapping[str, str] = field(default_factory=dict)
    #: What a field chooses from.
    options: Callable[[Session], Mapping[str, Sequence[tuple[str, str]]]] = lambda _session: {}
    readers: Mapping[str, asking.Reader] = field(default_factory=dict)
    #: Parameters that are no filters of its rows.
    own_readers: Mapping[str, asking.Reader] = field(default_factory=dict)
    filter_options: Callable[[Session], Sequence[Filter]] = lambda _session: ()
    is_searched: bool = True
    #: Who looks, and who changes.
    viewers: Permission = Permission.READ
    keepers: Permission = Permission.ADMINISTER
    #: What stands in a new one's form.
    begins_with: Mapping[str, str] = field(default_factory=dict)
    #: Asked only of a new one.
    only_new: Sequence[str] = ()
    #: Further things to do with one: a text, the last part of a path, whether it is asked in the dialog.
    further: Sequence[tuple[str, str, bool]] = ()
    #: Facts above the form of one.
    facts: Callable[[Request, Session, Any], Sequence[tuple[str, Any]]] = lambda _request, _session, _row: ()
    #: What is shown once after one was added; None: the list is.
    added: Callable[[Request, Any], Response | None] = lambda _request, _made: None
    list_template: str = "list.html"
    form_template: str = "form.html"
    #: Fields that no form asks for.
    left_out: Sequence[str] = ()
    #: Reads what columns of the rows to be drawn need beside them.
    prepare: Callable[[Sequence[Any]], None] = lambda _rows: None
    #: What the list's template knows beside the list.
    more: Callable[[Request, Session, Asked], Mapping[str, Any]] = lambda _request, _session, _asked: {}

    def register(self) -> None:
        """Add the routes. Those with a word in the place of an id come first."""
        routes, path, name = self.routes, self.path, self.path.strip("/").replace("-", "_")

        def show_list(request: Request, caller: Caller, session: DbSession) -> Response:
            return self.show_list(request, caller, session)

        def ask_new(request: Request, session: DbSession) -> Response:
            begun = {one.name: request.query_params.get(one.name, "") for one in self.fields(session)}
            form = forms.blank(self.fields(session), **(dict(self.begins_with) | {k: v for k, v in begun.items() if v}))
            return self._form(request, session, form, None)

        def post_new(request: Request, session: DbSession, posted: Posted) -> Response:
            return self._save(request, session, posted, None, self.add)

        def show_one(request: Request, caller: Caller, session: DbSession, row_id: Id) -> Response:
            row = self.get(row_id, session=session)
            form = forms.filled(self.fields(session, is_new=False), row, as_of=row.updated_at)
            return self._form(request, session, form, row, may_save=caller.may(self.keepers))

        def post_one(request: Request, session: DbSession, row_id: Id, posted: Posted) -> Response:
            return self._save(request, session, posted, self.get(row_id, session=session), self.change)

        def ask_copy(request: Request, session: DbSession, row_id: Id) -> Response:
            row = self.get(row_id, session=session)
            form = forms.filled(self.fields(session), row)
            form.is_set = frozenset()
            for name in ("active", "is_default"):
                form.texts.pop(name, None)
            if "name" in form.texts:
                form.texts["name"] = f"Copy of {form.texts['name']}"[:100]
            return self._form(request, session, form, None)

        def ask(request: Request, session: DbSession, row_id: Id) -> Response:
            return self._ask(request, session, row_id, request.url.path.rpartition("/")[2])

        def act(request: Request, session: DbSession, row_id: Id, posted: Posted) -> Response:
            return self._act(request, session, row_id, request.url.path.rpartition("/")[2], posted)

        looks, keeps = [needs(self.viewers)], [needs(self.keepers)]
        table: list[tuple[str, str, Callable[..., Response], Any, str]] = [
            ("GET", path, show_list, looks, "list"),
            ("GET", f"{path}/new", ask_new, keeps, "ask_new"),
            ("POST", f"{path}/new", post_new, keeps, "add"),
            ("GET", f"{path}/{{row_id}}", show_one, looks, "show"),
            ("POST", f"{path}/{{row_id}}", post_one, keeps, "change"),
        ]
        if self.copy is not None:
            table.append(("GET", f"{path}/{{row_id}}/copy", ask_copy, keeps, "ask_copy"))
        for verb in self._verbs():
            table.append(("GET", f"{path}/{{row_id}}/{verb}", ask, keeps, f"ask_{verb}"))
            table.append(("POST", f"{path}/{{row_id}}/{verb}", act, keeps, verb))
        for method, where, handler, dependencies, what in table:
            routes.add_api_route(
                where, handler, methods=[method], dependencies=dependencies, operation_id=f"{name}_{what}"
            )

    def _verbs(self) -> list[str]:
        verbs = ["delete"]
        if "active" in self.changed.model_fields:
            verbs += ["enable", "disable"]
        if self.choose_default is not None:
            verbs.append("default")
        return verbs

    def fields(self, session: Session, *, is_new: bool = True) -> list[Field]:
        """What its form asks."""
        return forms.fields_of(
            self.given,
            labels=self.labels,
            hints=self.hints,
            options=self.options(session),
            secrets=() if self.kind is None else self.kind.secrets,
            leave_out=(*self.left_out, *(() if is_new else self.only_new)),
        )

    def show_list(self, request: Request, caller: Identity, session: Session) -> Response:
        """The list."""
        has_active = "active" in self.changed.model_fields
        readers = {name: read for name, read in READERS.items() if has_active or name != "active"}
        if not self.is_searched:
            del readers["search"]
        readers |= {**self.readers, **self.own_readers}
        asked = asking.read(request.url.query, readers)
        rows: Lines[Any] = Lines([], 0)
        number = asked.get("page") or 1
        if not asked.errors:
            wanted = {
                name: value for name, value in asked.values.items() if name != "page" and name not in self.own_readers
            }
            rows = self.list_rows(session=session, page=number, size=SIZE, **wanted)
        self.prepare(rows)
        previous, following = pages_of(asked, number, SIZE, rows.total)
        listing = Listing(
            self.title,
            self.path,
            self.one,
            self.columns,
            asked,
            rows,
            newer=previous,
            older=following,
            order="in the order in which they are chosen" if self.choose_default else "in order",
            filters=(
                *([Filter("search", "Search", "a part of the name", kind="search")] if self.is_searched else []),
                *self.filter_options(session),
            ),
            tabs=ACTIVE_TABS if has_active else (),
            actions=[Action(f"New {self.one}", f"{self.path}/new", is_main=True)] if caller.may(self.keepers) else [],
            total=rows.total,
        )
        return page(request, self.list_template, list=listing, **self.more(request, session, asked))

    def _form(
        self,
        request: Request,
        session: Session,
        form: Form,
        row: Any,
        *,
        status: int = 200,
        may_save: bool = True,
    ) -> Response:
        path = f"{self.path}/new" if row is None else f"{self.path}/{row.id}"
        return page(
            request,
            self.form_template,
            status=status,
            title=f"New {self.one}" if row is None else f"{self.one[:1].upper()}{self.one[1:]} {row.id}",
            leave=self.path,
            leave_text=self.title,
            action=path,
            actions=self._actions(row) if row is not None and may_save else [],
            facts=[] if row is None else self.facts(request, session, row),
            form=form,
            verb="Add" if row is None else "Save",
            may_save=may_save,
        )

    def _actions(self, row: Any) -> list[Action]:
        path = f"{self.path}/{row.id}"
        actions = [Action(text, f"{path}/{last}", asks) for text, last, asks in self.further]
        if self.copy is not None:
            actions.append(Action("Copy", f"{path}/copy"))
        if self.choose_default is not None and not row.is_default:
            actions.append(Action("Make default…", f"{path}/default", asks=True))
        if hasattr(row, "active"):
            verb = "Disable" if row.active else "Enable"
            actions.append(Action(f"{verb}…", f"{path}/{verb.lower()}", asks=True))
        actions.append(Action("Delete…", f"{path}/delete", asks=True))
        return actions

    def _save(self, request: Request, session: Session, posted: Posted, row: Any, save: Callable[..., Any]) -> Response:
        fields = self.fields(session, is_new=row is None)
        stored = None if row is None else forms.filled(fields, row)
        read = forms.read(fields, posted, self.given if row is None else self.changed, stored=stored)
        if isinstance(read, Form):
            return self._form(request, session, read, row, status=422)
        form = forms.typed(fields, posted, stored=stored)
        try:
            with session.begin_nested():
                if row is None:
                    made = save(session=session, **read.sent())
                else:
                    self._require_as_seen(session, row, forms.seen_at(posted))
                    save(row.id, session=session, **read.sent())
                    made = row.id
        except ChangedMeanwhile as exc:
            form.error = f"Someone else saved this meanwhile, so nothing was changed: {exc}."
            # Saved again, it replaces what the other one wrote: that was said now.
            form.as_of = self.get(row.id, session=session).updated_at.isoformat()
            return self._form(request, session, form, row, status=409)
        except ConfigRejected as exc:
            form.refuse(exc.field, exc.reason)
            return self._form(request, session, form, row, status=422)
        except RecordNotFound as exc:
            form.refuse(None, str(exc))
            return self._form(request, session, form, row, status=422)
        shown = self.added(request, made) if row is None else None
        if shown is not None:
            return shown
        verb = "added" if row is None else "saved"
        return done(request, url(request, self.path), f"{self.one[:1].upper()}{self.one[1:]} {_id_of(made)} is {verb}.")

    def _require_as_seen(self, session: Session, row: Any, as_of: datetime) -> None:
        if self.kind is not None:
            config_admin.require_as_seen(session, self.kind, row.id, as_of)

    def _ask(self, request: Request, session: Session, row_id: int, verb: str) -> Response:
        row = self.get(row_id, session=session)
        name = getattr(row, "name", None) or getattr(row, "code", None)
        texts = {
            "delete": self.after_delete,
            "disable": "It leaves lists and is not chosen any more. What is prepared with it still goes out.",
            "enable": "It can be chosen again.",
            "default": "It is chosen where nothing else is said; the one before is so no more.",
        }
        return page(
            request,
            "confirm.html",
            title=f"{'Make default' if verb == 'default' else verb.capitalize()}: {self.one} {row_id}?",
            text=texts[verb],
            refusal="",
            verb="Make default" if verb == "default" else verb.capitalize(),
            is_dangerous=verb == "delete",
            what={"Name": name} if name else {},
            action=url(request, f"{self.path}/{row_id}/{verb}"),
            fields={},
            remark=False,
            leave=url(request, f"{self.path}/{row_id}"),
        )

    def _act(self, request: Request, session: Session, row_id: int, verb: str, posted: Posted) -> Response:
        target = url(request, self.path)
        words = {"delete": "deleted", "disable": "disabled", "enable": "enabled", "default": "the default"}
        try:
            with session.begin_nested():
                if verb == "delete":
                    self.delete(row_id, session=session)
                elif verb == "default":
                    assert self.choose_default is not None
                    self.choose_default(row_id, session=session)
                else:
                    self.change(row_id, session=session, active=verb == "enable")
        except (StateError, ConfigRejected) as exc:
            return done(request, target, f"Nothing was changed: {exc}.", is_refusal=True)
        return done(request, target, f"{self.one[:1].upper()}{self.one[1:]} {row_id} is {words[verb]}.")


def named(path: str) -> Column:
    """A name that leads to its form."""
    return Column("Name", lambda row: Cell(row.name, path=f"{path}/{row.id}", title=row.name), "c-to")


ACTIVE = Column("State", switched, "c-short")


def default_mark() -> Column:
    """Which one is the default."""
    return Column("Default", lambda row: "default" if row.is_default else "", "c-short")


def _id_of(made: Any) -> int:
    return cast("int", made if isinstance(made, int) else made.id)
