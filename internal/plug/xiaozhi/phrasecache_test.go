package xiaozhi

import (
	"strconv"
	"testing"

	"patchbay/internal/voice/engine"
)

// TestPhraseCache checks that the phrases that were not used for long make room for new ones.
func TestPhraseCache(t *testing.T) {
	var c phraseCache
	key := func(text string) phraseKey { return phraseKey{engine: engine.ID{Name: "a"}, text: text} }
	c.put(key("empty"), nil)
	for i := range 80 {
		c.put(key(strconv.Itoa(i)), [][]byte{make([]byte, maxPhrases/64)})
		c.put(key("0"), [][]byte{{1}}) // has its sound already
		if c.get(key("0")) == nil {
			t.Fatalf("the phrase that is used most is gone after %d others", i)
		}
	}
	if c.bytes > maxPhrases || c.recent.Len() != len(c.byKey) || len(c.byKey) != 63 {
		t.Errorf("%d phrases of %d bytes", len(c.byKey), c.bytes)
	}
	if c.get(key("1")) != nil || c.get(key("79")) == nil || c.get(key("empty")) != nil {
		t.Error("the wrong phrases are gone")
	}
	other := key("79")
	other.engine.Version = "2"
	if c.get(other) != nil {
		t.Error("an engine with other settings has the sound of the one before")
	}
}
