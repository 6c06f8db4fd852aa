"""What each backend makes of each op and of each model: probed, tabulated, compared."""
