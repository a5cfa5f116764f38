"""What happens to states: commits, rollbacks, forks, merges, differences, history."""
