"""What a deploy config may say, section by section; where it comes from does not matter here."""
