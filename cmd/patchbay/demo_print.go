package main

import (
	"strings"
	"sync"
)

// script prints the story as it happens; several actors speak at once.
type script struct {
	sh   *shell
	mu   sync.Mutex
	open bool // a line of an answer has no end yet
}

const indent = "   "

// line prints a line of the story: who or what, and the words.
func (s *script) line(mark, words string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.print("\n", s.open)
	s.open = false
	s.print(indent+mark+" "+fold(words)+"\n", true)
}

// words prints a piece of an answer.
func (s *script) words(piece string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.print(indent+"‹ ", !s.open)
	s.open = true
	s.print(fold(piece), true)
}

// endLine ends the answer.
func (s *script) endLine() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.print("\n", s.open)
	s.open = false
}

func (s *script) print(text string, want bool) {
	if want && !s.sh.json {
		s.sh.printf("%s", text)
	}
}

// fold keeps lines that follow under the first one.
func fold(text string) string { return strings.ReplaceAll(text, "\n", "\n"+indent+"  ") }
