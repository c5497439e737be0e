package engine

import "sync"

// spelledSpeech is the [Speech] of an engine that gets other texts than those that are shown, as
// [Link.Spell] writes them.
type spelledSpeech struct {
	Speech
	spell func(text string) string

	mu      sync.Mutex
	texts   []string // not shown yet
	letters []int    // of what the engine got in their place
	ahead   int      // letters of shown texts that no clip has said, or the negative of others
}

// Write implements [Speech].
func (s *spelledSpeech) Write(text string) error {
	other := s.spell(text)
	s.mu.Lock()
	s.texts, s.letters = append(s.texts, text), append(s.letters, letters(other))
	s.mu.Unlock()
	return s.Speech.Write(other)
}

// used implements [metered].
func (s *spelledSpeech) used() Use { return usedOf(s.Speech) }

// Next implements [Speech]. The clip in which a text begins has all of it.
func (s *spelledSpeech) Next() (Clip, error) {
	c, err := s.Speech.Next()
	if err != nil || c.Text == "" {
		return c, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ahead -= letters(c.Text)
	c.Text = ""
	for s.ahead < 0 && len(s.texts) > 0 {
		c.Text = JoinTexts(c.Text, s.texts[0])
		s.ahead += s.letters[0]
		s.texts, s.letters = s.texts[1:], s.letters[1:]
	}
	return c, nil
}
