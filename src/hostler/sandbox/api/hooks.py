"""A repository's webhooks."""

from __future__ import annotations

from dataclasses import replace
from urllib.parse import urlsplit

from hostler.sandbox.http.call import ApiCall
from hostler.sandbox.http.errors import invalid, not_found
from hostler.sandbox.http.requests import JsonFields, SandboxResponse, json_response, no_content
from hostler.sandbox.http.router import REPO, ApiRouter
from hostler.sandbox.serializers.base import RenderContext, serialize, webhook_payload
from hostler.sandbox.webhooks import WEBHOOK_EVENTS, HookDelivery, Webhook

router = ApiRouter()
HOOK = REPO + "/hooks/{hook_id}"


@webhook_payload("ping")
def _ping_payload(item: Webhook, _action: str, frame: RenderContext) -> dict[str, object]:
    zen = "Keep it logically awesome."
    return {"zen": zen, "hook_id": item.id, "hook": serialize(item, frame)}


@router.route("GET", REPO + "/hooks", access="admin", login=True)
def list_hooks(call: ApiCall) -> SandboxResponse:
    """Return all hooks."""
    return call.page(call.tables.group(Webhook, "repo", call.repo.id).select())


@router.route("POST", REPO + "/hooks", access="admin")
def create_hook(call: ApiCall) -> SandboxResponse:
    """Subscribe a URL; it is pinged at once."""
    fields = call.fields("Hook")
    now = call.world.now()
    hook = Webhook(call.world.new_id("hook"), call.repo.id, "", created_at=now, updated_at=now)
    hook = call.world.put(_with_fields(hook, fields))
    call.world.publish("ping", hook, "", call.actor)
    return call.one(hook, 201)


@router.route("GET", HOOK, access="admin", login=True)
def get_hook(call: ApiCall) -> SandboxResponse:
    """Return one hook."""
    return call.one(_find_hook(call))


@router.route("PATCH", HOOK, access="admin")
def edit_hook(call: ApiCall) -> SandboxResponse:
    """Change a hook."""
    hook = _with_fields(_find_hook(call), call.fields("Hook"))
    return call.one(call.world.put(replace(hook, updated_at=call.world.now())))


@router.route("DELETE", HOOK, access="admin")
def delete_hook(call: ApiCall) -> SandboxResponse:
    """Delete a hook and its deliveries."""
    hook = _find_hook(call)
    for made in list(call.tables.group(HookDelivery, "hook", hook.id).select()):
        call.world.remove(made)
    call.world.remove(hook)
    return no_content()


@router.route("POST", HOOK + "/pings", access="admin")
def ping_hook(call: ApiCall) -> SandboxResponse:
    """Send a ping."""
    call.world.publish("ping", _find_hook(call), "", call.actor)
    return no_content()


@router.route("GET", HOOK + "/deliveries", access="admin", login=True)
def list_deliveries(call: ApiCall) -> SandboxResponse:
    """Return a hook's deliveries, newest first."""
    made = call.tables.group(HookDelivery, "hook", _find_hook(call).id)
    return call.page(made.select(descending=True), "bare")


@router.route("GET", HOOK + "/deliveries/{delivery_id}", access="admin", login=True)
def get_delivery(call: ApiCall) -> SandboxResponse:
    """Return one delivery with its payload."""
    found = call.tables.get(HookDelivery, call.number("delivery_id"))
    if found is None or found.hook_id != _find_hook(call).id:
        raise not_found()
    return json_response(serialize(found, call.frame))


def _find_hook(call: ApiCall) -> Webhook:
    found = call.tables.get(Webhook, call.number("hook_id"))
    if found is None or found.repo_id != call.repo.id:
        raise not_found()
    return found


def _with_fields(hook: Webhook, fields: JsonFields) -> Webhook:
    events = fields.texts("events")
    if events is not None and not (events and WEBHOOK_EVENTS.issuperset(events)):
        raise invalid("Hook", "events", "invalid")
    config = fields.values.get("config", {})
    if not isinstance(config, dict):
        raise invalid("Hook", "config", "invalid")
    settings = JsonFields("Hook", config)
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
