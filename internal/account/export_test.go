package account

// CompareWith has passwords checked by something else, for tests that count.
func (s *Service) CompareWith(compare func(password, hash string) (bool, error)) { s.compare = compare }
