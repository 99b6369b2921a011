"""What one sample is made of: as numbers and words (`tapwise`), and as a picture (`plot`)."""
