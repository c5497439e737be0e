package cli

import (
	"strings"
	"sync"
)

// demoOutput prints the demo as it happens. It is safe for concurrent use.
type demoOutput struct {
	sh   *shell
	mu   sync.Mutex
	open bool // a line of an answer is not terminated
}

const indent = "   "

// line prints a line: who or what, and the text.
func (s *demoOutput) line(mark, words string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.print("\n", s.open)
	s.open = false
	s.print(indent+mark+" "+fold(words)+"\n", true)
}

// words prints a piece of an answer.
func (s *demoOutput) words(piece string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.print(indent+"‹ ", !s.open)
	s.open = true
	s.print(fold(piece), true)
}

// endLine terminates the line of the answer.
func (s *demoOutput) endLine() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.print("\n", s.open)
	s.open = false
}

func (s *demoOutput) print(text string, want bool) {
	if want && !s.sh.json {
		s.sh.printf("%s", text)
	}
}

// fold indents continuation lines below the first one.
func fold(text string) string { return strings.ReplaceAll(text, "\n", "\n"+indent+"  ") }
