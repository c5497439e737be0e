package account

// CompareWith replaces the password comparison, for tests that count calls.
func (s *Service) CompareWith(compare func(password, hash string) (bool, error)) { s.compare = compare }
