"""The operators' console: pages made here, over the same functions as the HTTP API, from templates and two assets.

Every page is a plain GET or POST; the script only saves reloads. Nothing on a page comes from another origin.
"""
