"""What commands share: `parsing` of options, `progress` while they work, `saying` for messages on standard error."""
