"""What commands share: `parsing` of options, `progress` while they work, `messages` for messages on standard error."""
