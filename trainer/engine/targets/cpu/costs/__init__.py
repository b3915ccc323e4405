"""The cost model of the templates' tiles and tasks, and the ranking of the parameters worth trying, best first."""
