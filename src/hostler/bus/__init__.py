"""The bus: messages between agents, tasks and people."""

from hostler.bus.bus import Bus, project_bus, task_bus
from hostler.bus.ids import BEGINNING
from hostler.bus.message import Message, MessageType, Sender, SenderKind
from hostler.bus.place import sender_here
from hostler.bus.reading import Follower, Page
from hostler.bus.terms import Terms
from hostler.bus.watching import Watch, watch

__all__ = [
    "BEGINNING",
    "Bus",
    "Follower",
    "Message",
    "MessageType",
    "Page",
    "Sender",
    "SenderKind",
    "Terms",
    "Watch",
    "project_bus",
    "sender_here",
    "task_bus",
    "watch",
]
