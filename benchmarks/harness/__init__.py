"""What every benchmark needs: figures, servers, child processes, the one mail."""
