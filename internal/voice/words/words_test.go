package words

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

func TestPause(t *testing.T) {
	for pause, texts := range map[time.Duration][]string{
		ShortPause: {"今天天气怎么样？", "What is the weather today?", "好的", "Stop!", "不要", "yes",
			"我吃完了。", "I am done.", "再见", "嗯", "对", "Next", "你好！"},
		MiddlePause: {"", "今天天气怎么样", "what is the weather", "打开客厅的灯", "set a timer",
			"Tell me a story"},
		LongPause: {"我想要那个", "今天的", "因为", "我要去北京和", "the", "I would like to", "um",
			"set a timer for", "电话是一三八", "call 555", "Let me think...", "那个，", "然后……",
			"I think the.", "嗯，那个。"},
	} {
		for _, text := range texts {
			if got := Pause(text); got != pause {
				t.Errorf("after %q the pause is %s, want %s", text, got, pause)
			}
		}
	}
}

func TestShortTexts(t *testing.T) {
	for text, is := range map[string]func(string) bool{
		"Good-bye!": IsExit, "再见。": IsExit, "That's all.": IsExit, "停！": IsStop, "Stop it": IsStop,
		"Stop the music!": EndsMusic, "停": EndsMusic, "关掉音乐。": EndsMusic, "嗯嗯": IsBackchannel,
		"Uh-huh.": IsBackchannel, "Thanks for watching!": IsNoise, "谢谢观看": IsNoise,
	} {
		if !is(text) {
			t.Errorf("%q is not recognised", text)
		}
	}
	if IsExit("say goodbye to her") || IsStop("don't stop") || IsBackchannel("right now") || IsExit("") {
		t.Error("longer texts are more than the words in them")
	}
	if !Is("Bye, Robot!", []string{"bye robot"}) || Is("", []string{""}) {
		t.Error("comparing with a list")
	}
	for text, n := range map[string]int{"": 0, "停": 1, "今天": 2, "it's raining": 2, "打开 WiFi": 3,
		"3 4": 2, "?!": 0} {
		if got := Count(text); got != n {
			t.Errorf("%q has %d words, want %d", text, got, n)
		}
	}
}

func TestForeign(t *testing.T) {
	for _, c := range []struct {
		text, language string
		foreign        bool
	}{
		{"그래", "zh-CN", true}, {"はい", "zh", true}, {"はい", "ja-JP", false},
		{"打开WiFi", "zh", false}, {"OK", "zh", false},
		{"你好", "en-US", true}, {"Привет", "en", true}, {"Привет", "ru", false},
		{"hello", "en", false}, {"42", "en", false},
		{"你好", "", false}, {"sí, mañana", "es", false},
	} {
		if got := IsForeign(c.text, c.language); got != c.foreign {
			t.Errorf("%q in %q: %t", c.text, c.language, got)
		}
	}
}

func TestEcho(t *testing.T) {
	const spoken = "今天多云，最高温度二十度。明天有雨，出门请带伞。 It will stay cool until Sunday."
	for text, echo := range map[string]bool{
		"": true, "最高温度": true, "明天有鱼出门带伞": true, "it will stay cold": true, "stay cool until Monday": true,
		"后天呢": false, "停": false, "what about Friday": false, "我想听音乐": false,
	} {
		if got := IsEcho(text, spoken); got != echo {
			t.Errorf("%q is an echo: %t", text, got)
		}
	}
	for text, stop := range map[string]bool{
		"停": true, "最高温度停": true, "it will stay stop": true, "stop": true, "last stop": true, "nonstop": false,
		"最高温度": false, "wait": true,
	} {
		if got := HasStop(text, spoken); got != stop {
			t.Errorf("%q says stop: %t", text, got)
		}
	}
	for heard, want := range map[string]string{
		"最高温度二十度明天有后天怎么样": "后天怎么样", "it will stay cold until Sunday, and Friday": "and Friday", "": "",
		"后天呢": "后天呢", "what about Friday": "what about Friday", "IT WILL STAY cool": "",
	} {
		if got := AfterEcho(heard, spoken); got != want {
			t.Errorf("after the echo in %q: %q, want %q", heard, got, want)
		}
	}
	if n := CountNew("明天呢 it's Friday, until", spoken); n != 3 {
		t.Errorf("%d new words", n)
	}
	for text, stop := range map[string]bool{
		"cool until stop ember": true, "最高温停": true, "stop it will": true, "停，后天呢": false,
		"stop, what about Friday": false, "ember it will stay stop cool ember": true,
	} {
		if got := IsStopInEcho(text, spoken); got != stop {
			t.Errorf("%q says no more than stop: %t", text, got)
		}
	}
	if HasStop("停", "公交车停在路边") || HasStop("stop", "the last stop") {
		t.Error("a stop that the board has spoken itself")
	}
}

func FuzzEcho(f *testing.F) {
	f.Add("今天多云", "今天多云，最高温度二十度。")
	f.Fuzz(func(t *testing.T, heard, spoken string) {
		if !IsEcho(heard, heard) || !IsEcho(heard, spoken+heard) {
			t.Errorf("%q is no echo of itself", heard)
		}
		HasStop(heard, spoken)
		IsStopInEcho(heard, spoken)
		if rest := AfterEcho(heard, spoken); utf8.ValidString(heard) && !strings.HasSuffix(heard, rest) {
			t.Errorf("%q is not the end of %q", rest, heard)
		}
		Pause(heard)
		IsForeign(heard, spoken)
	})
}
