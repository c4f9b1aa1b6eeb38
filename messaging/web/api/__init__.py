"""The HTTP API, `/api/v1`: one file for each resource, put together in `router`. Source: `operate.md` section 9."""
