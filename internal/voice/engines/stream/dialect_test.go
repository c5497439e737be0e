package stream

import (
	"testing"
	"unicode/utf8"

	"patchbay/internal/voice/engine"
)

// Words are joined as their scripts want it.
func TestJoin(t *testing.T) {
	for text, want := range map[string]string{"今天 天气": "今天天气", " a  b ": "a b", "我 用 Go 语言": "我用 Go 语言",
		"カタ カナ ー": "カタカナー", "": "", "안녕 하세요": "안녕 하세요"} {
		if got := joinWords(text); got != want {
			t.Errorf("joinWords(%q) = %q", text, got)
		}
	}
	for _, c := range [][3]string{{"a", "b", "a b"}, {"好。", "Hello", "好。Hello"}, {"", "b", "b"}, {"a ", "", "a"}} {
		if got := engine.JoinTexts(c[0], c[1]); got != c[2] {
			t.Errorf("engine.JoinTexts(%q, %q) = %q", c[0], c[1], got)
		}
	}
}

// Tags are removed wherever they are.
func TestTags(t *testing.T) {
	text, lang, emotion := cutTags("<|yue|><|EMO_UNKNOWN|><|BGM|>你好<|en|><|SAD|> a <|b")
	if text != "你好 a <|b" || lang != "en" || emotion != "sad" {
		t.Errorf("%q %q %q", text, lang, emotion)
	}
}

// sherpa-onnx may say that it is done.
func TestSherpaDone(t *testing.T) {
	s := &sherpa{}
	s.ended(1)
	if last, err := s.accept([]byte(`{"text":"a","segment":0}`)); last || err != nil {
		t.Error(last, err)
	}
	if last, err := s.accept([]byte("Done!")); !last || err != nil || s.transcript().Text != "a" {
		t.Error(last, err)
	}
}

// fuzz feeds a dialect the same message three times, the last one after the end.
func fuzz(f *testing.F, newOne func() dialect, seeds ...string) {
	for _, seed := range seeds {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, message []byte) {
		d := newOne()
		for i := range 3 {
			if i == 2 {
				d.ended(2)
			}
			if last, err := d.accept(message); err != nil {
				if e := engine.AsError(err); e.Class != engine.Broken {
					t.Errorf("class %s", e.Class)
				}
				return
			} else if last && i < 2 {
				t.Error("final before the end")
			}
		}
		if tr := d.transcript(); !utf8.ValidString(tr.Text) || len(tr.Text) > 10*len(message)+10 {
			t.Errorf("text %q", tr.Text)
		}
	})
}

func FuzzFunASR(f *testing.F) {
	fuzz(f, func() dialect { return newFunASR(&Settings{}, nil) }, `{"mode":"2pass-online","text":"a","is_final":true}`,
		`{"mode":"2pass-offline","text":"<|zh|><|HAPPY|>a。"}`, `{"mode":"offline","text":""}`, `{"mode":1}`, `[]`)
}

func FuzzVosk(f *testing.F) {
	fuzz(f, func() dialect { return &vosk{} }, `{"partial":"今天 a"}`, `{"text":"b c","result":[{"word":"b"}]}`, `{}`, `null`)
}

func FuzzSherpa(f *testing.F) {
	fuzz(f, func() dialect { return &sherpa{} }, `{"text":"a","segment":0}`, `{"text":"b","segment":9}`, `Done!`, `{"segment":-1}`)
}
