"""Notifications to people, once per cause: `notifier` decides and queues, `delivery` sends."""
