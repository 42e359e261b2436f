"""A repository's webhooks."""

from __future__ import annotations

from dataclasses import replace
from urllib.parse import urlsplit

from hostler.sandbox.call import Call
from hostler.sandbox.errors import invalid, not_found
from hostler.sandbox.fields import Fields
from hostler.sandbox.hooks import EVENTS, Delivery, Hook
from hostler.sandbox.http import Response, json_response, no_content
from hostler.sandbox.payloads import payload
from hostler.sandbox.render import Frame, shaped
from hostler.sandbox.router import REPO, Router

router = Router()
ONE = REPO + "/hooks/{hook_id}"


@payload("ping")
def _ping(item: Hook, _action: str, frame: Frame) -> dict[str, object]:
    zen = "Keep it logically awesome."
    return {"zen": zen, "hook_id": item.id, "hook": shaped(item, frame)}


@router.route("GET", REPO + "/hooks", access="admin", login=True)
def list_hooks(call: Call) -> Response:
    """All hooks."""
    return call.page(call.tables.group(Hook, "repo", call.repo.id).select())


@router.route("POST", REPO + "/hooks", access="admin")
def create(call: Call) -> Response:
    """Subscribe a URL; it is pinged at once."""
    fields = call.fields("Hook")
    now = call.world.now()
    hook = Hook(call.world.new_id("hook"), call.repo.id, "", created_at=now, updated_at=now)
    hook = call.world.put(_changed(hook, fields))
    call.world.tell("ping", hook, "", call.actor)
    return call.one(hook, 201)


@router.route("GET", ONE, access="admin", login=True)
def get(call: Call) -> Response:
    """One hook."""
    return call.one(_hook(call))


@router.route("PATCH", ONE, access="admin")
def edit(call: Call) -> Response:
    """Change a hook."""
    hook = _changed(_hook(call), call.fields("Hook"))
    return call.one(call.world.put(replace(hook, updated_at=call.world.now())))


@router.route("DELETE", ONE, access="admin")
def delete(call: Call) -> Response:
    """Unsubscribe; what was delivered is forgotten."""
    hook = _hook(call)
    for made in list(call.tables.group(Delivery, "hook", hook.id).select()):
        call.world.remove(made)
    call.world.remove(hook)
    return no_content()


@router.route("POST", ONE + "/pings", access="admin")
def ping(call: Call) -> Response:
    """Send a ping."""
    call.world.tell("ping", _hook(call), "", call.actor)
    return no_content()


@router.route("GET", ONE + "/deliveries", access="admin", login=True)
def deliveries(call: Call) -> Response:
    """What was delivered, newest first."""
    made = call.tables.group(Delivery, "hook", _hook(call).id)
    return call.page(made.select(descending=True), "bare")


@router.route("GET", ONE + "/deliveries/{delivery_id}", access="admin", login=True)
def delivery(call: Call) -> Response:
    """One delivery with what was said."""
    found = call.tables.get(Delivery, call.number("delivery_id"))
    if found is None or found.hook_id != _hook(call).id:
        raise not_found()
    return json_response(shaped(found, call.frame))


def _hook(call: Call) -> Hook:
    found = call.tables.get(Hook, call.number("hook_id"))
    if found is None or found.repo_id != call.repo.id:
        raise not_found()
    return found


def _changed(hook: Hook, fields: Fields) -> Hook:
    events = fields.texts("events")
    if events is not None and not (events and EVENTS.issuperset(events)):
        raise invalid("Hook", "events", "invalid")
    config = fields.values.get("config", {})
    if not isinstance(config, dict):
        raise invalid("Hook", "config", "invalid")
    settings = Fields("Hook", config)
    url = settings.text("url", required=not hook.url) or hook.url
    if not _is_url(url):
        raise invalid("Hook", "url", "invalid")
    return replace(
        hook,
        url=url,
        secret=settings.text("secret") or hook.secret,
        content_type=settings.choice("content_type", ("json", "form")) or hook.content_type,
        events=hook.events if events is None else tuple(dict.fromkeys(events)),
        active=fields.flag("active", hook.active),
    )


def _is_url(text: str) -> bool:
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError:
        return False
    return parts.scheme in ("http", "https") and bool(parts.hostname) and port != 0
