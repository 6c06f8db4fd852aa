"""The reference backend: eager torch behind a delegate, to test plugins, borders and numbers."""
