package xiaozhi

import (
	"bytes"
	"container/list"
	"context"
	"errors"
	"io"
	"strings"
	"sync"
	"time"

	"patchbay/internal/i18n"
	"patchbay/internal/plug/xiaozhi/wire"
	"patchbay/internal/voice"
	"patchbay/internal/voice/engine"
	"patchbay/internal/voice/pace"
	"patchbay/internal/voice/words"
)

const (
	// maxPhrases limits the packets of all phrases, in bytes: some hours of sound. Those that were
	// not used for longest are dropped.
	maxPhrases = 64 << 20
	// fillerAfter is how long a board is silent after a question until it asks for patience, and
	// fillerWithin within an answer, which then waits for a tool.
	fillerAfter, fillerWithin = 1200 * time.Millisecond, time.Second
)

// msgFiller is said while an answer takes long.
const msgFiller = i18n.Message("One moment.")

// phraseKey is what the sound of a phrase depends on.
type phraseKey struct {
	engine engine.ID
	manner engine.Manner
	output wire.Audio
	text   string
}

// phraseCache has the sound of phrases that boards say again and again, such as greetings and
// errors, in packets that are ready to be sent. It is safe for concurrent use. The zero value is
// ready.
type phraseCache struct {
	mu     sync.Mutex
	recent list.List // of *phrase, the newest first
	byKey  map[phraseKey]*list.Element
	bytes  int
}

type phrase struct {
	key     phraseKey
	packets [][]byte
	bytes   int
}

// get returns the packets of a phrase, which the caller does not change; nil: there are none.
func (c *phraseCache) get(key phraseKey) [][]byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.byKey[key]
	if e == nil {
		return nil
	}
	c.recent.MoveToFront(e)
	return e.Value.(*phrase).packets
}

// put adds a phrase, unless it is there.
func (c *phraseCache) put(key phraseKey, packets [][]byte) {
	p := &phrase{key, packets, len(key.text)}
	for _, packet := range packets {
		p.bytes += len(packet)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(packets) == 0 || c.byKey[key] != nil {
		return
	}
	if c.byKey == nil {
		c.byKey = map[phraseKey]*list.Element{}
	}
	c.byKey[key] = c.recent.PushFront(p)
	c.bytes += p.bytes
	for c.bytes > maxPhrases {
		oldest := c.recent.Remove(c.recent.Back()).(*phrase)
		delete(c.byKey, oldest.key)
		c.bytes -= oldest.bytes
	}
}

// phraseKey returns the key of a phrase. It is not ok if no engine can speak.
func (c *Conversation) phraseKey(chain *engine.Chain, m engine.Manner, text string) (key phraseKey, ok bool) {
	id, ok := chain.Speaks()
	return phraseKey{id, m, c.output, text}, ok
}

// phrase returns the packets of a phrase, and counts it.
func (c *Conversation) phrase(key phraseKey) [][]byte {
	h := c.board.boards
	packets, outcome := h.phrases.get(key), "hit"
	if packets == nil {
		outcome = "miss"
	}
	h.metrics.phrases.WithLabelValues(outcome).Inc()
	return packets
}

// filler returns the phrase for when an answer takes long; empty: it is off, or there is none in
// the language that is spoken.
func (c *Conversation) filler(s VoiceSettings) string {
	lang := i18n.ParseLang(s.Language, c.Lang())
	off := s.Fillers != nil && !*s.Fillers
	if off || s.Language != "" && !strings.HasPrefix(strings.ToLower(s.Language), string(lang)) {
		return ""
	}
	return msgFiller.In(lang)
}

// learnFiller has the engine speak the filler, for the first answer that takes long.
func (c *Conversation) learnFiller(ctx context.Context, chain *engine.Chain, s VoiceSettings) {
	text := c.filler(s)
	key, ok := c.phraseKey(chain, s.manner(), text)
	if !ok || text == "" || c.board.boards.phrases.get(key) != nil {
		return
	}
	speech := chain.Speak(ctx, key.manner)
	defer speech.Close()
	if errors.Join(speech.Write(text), speech.Finish()) != nil {
		return
	}
	var packets [][]byte
	for {
		clip, err := speech.Next()
		if errors.Is(err, io.EOF) && speech.Engine() == key.engine {
			c.board.boards.phrases.put(key, packets)
		}
		if err != nil {
			return // it is tried again in the next conversation
		}
		source := c.board.boards.clipSource(clip, c.output)
		packets, err = appendPackets(ctx, packets, source)
		closeSource(source)
		if err != nil {
			return
		}
	}
}

// appendPackets reads a source to its end.
func appendPackets(ctx context.Context, packets [][]byte, source pace.Source) ([][]byte, error) {
	for {
		packet, err := source.Next(ctx)
		if errors.Is(err, io.EOF) {
			return packets, nil
		}
		if err != nil {
			return nil, err
		}
		packets = append(packets, bytes.Clone(packet))
	}
}

// learner notes the packets of a phrase while they are played. Nil notes nothing.
type learner struct {
	cache   *phraseCache
	key     phraseKey
	packets [][]byte
	over    bool
}

// begin notes that a clip of an engine begins; without a text it is more of the one before.
func (l *learner) begin(text string, by engine.ID) {
	if l == nil || text == "" {
		return
	}
	if l.packets != nil || by != l.key.engine || words.Letters(text) != words.Letters(l.key.text) {
		l.finish()
	}
}

func (l *learner) add(packet []byte) {
	if l != nil && !l.over {
		l.packets = append(l.packets, bytes.Clone(packet))
	}
}

// finish keeps the phrase.
func (l *learner) finish() {
	if l != nil && !l.over {
		l.cache.put(l.key, l.packets)
		l.over = true
	}
}

// fail forgets the phrase.
func (l *learner) fail() {
	if l != nil {
		l.over = true
	}
}

// aside is a phrase that a board plays without an engine.
type aside struct {
	text    string
	packets [][]byte
	filler  bool
}

func (a aside) source() pace.Source { return voice.Packets(a.packets) }
