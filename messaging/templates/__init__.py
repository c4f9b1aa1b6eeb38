"""Templates: rows, look-up by tier, and rendering what tenants wrote within bounds."""
