"""Calls for people: what they should know, once per cause, to an address of theirs."""

from hostler.service.notify.address import Address, address_of
from hostler.service.notify.notifier import Notifier
from hostler.service.notify.posting import Refused, post
from hostler.service.notify.shapes import Call, shaped, signature_of

__all__ = [
    "Address",
    "Call",
    "Notifier",
    "Refused",
    "address_of",
    "post",
    "shaped",
    "signature_of",
]
