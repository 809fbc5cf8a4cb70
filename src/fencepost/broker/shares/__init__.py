"""Share groups (KIP-932) of a broker process: its share coordinators and the way to others."""
