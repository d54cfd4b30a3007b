"""A sample prompt pack: records out of transcripts of tabletop role-playing sessions."""
