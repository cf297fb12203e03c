"""What every process of the service needs: starting, stopping, and output for a person."""
