package board

// away is an outlet that another instance holds.
type away struct{ offer *offer }
