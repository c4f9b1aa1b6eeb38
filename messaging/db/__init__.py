"""Storage: engine, sessions, base, tenant filters, encryption, schema. Nothing of the domain."""
