"""Who may do what with messages, of either channel."""

from messaging.access.roles import Permission

#: Method, path below that of all messages, and of which permissions a caller has one.
WHO_MAY = [
    ("POST", "", {Permission.SEND}),
    ("POST", "/batch", {Permission.SEND}),
    ("GET", "", {Permission.READ}),
    ("GET", "/{id}", {Permission.READ}),
    ("GET", "/{id}/status", {Permission.SEND, Permission.READ}),
    ("GET", "/{id}/attempts", {Permission.READ}),
    ("POST", "/{id}/cancel", {Permission.SEND, Permission.OPERATE}),
    ("POST", "/{id}/retry", {Permission.OPERATE}),
    ("POST", "/retry", {Permission.OPERATE}),
]
