package app

import "patchbay/internal/control"

// monthlyChannel is the channel, in the audit trail, of fits that nobody asks for.
const monthlyChannel = "learn-monthly"

// recordFits records the fits that Learn makes by itself as calls of the tool that does the same.
func recordFits(s *control.Service) func(person string, do func() error) error {
	return func(person string, do func() error) error {
		return s.RecordLearnChange(control.Caller{Person: person, Program: monthlyChannel}, "fit_memory",
			control.LearnFit{}, do)
	}
}
