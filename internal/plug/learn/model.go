package learn

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode"

	"patchbay/internal/talk"
)

const (
	// judgeTime is how long a model may think about a recall: its person waits with
	// glasses on. writeTime is for answers and drafts.
	judgeTime = 30 * time.Second
	writeTime = 60 * time.Second
	// maxShown is how much of one text a model is shown, in bytes: more would not
	// fit into many models.
	maxShown = 16 << 10
	// maxReply is how much of a model's reply is looked at, in bytes.
	maxReply = 64 << 10
	// maxObjects is in how many places of a reply an object is looked for, so that
	// a reply of brackets costs little.
	maxObjects = 40
)

// errUnusable says that a model replied something else than it was asked for.
var errUnusable = errors.New("the model's reply cannot be used")

// Sentences about why no model had its say.
var (
	sayNoModel    = talk.Say{Zh: "没有可用的模型", En: "no model is set up"}
	sayOff        = talk.Say{Zh: "设置里没有让模型参与", En: "the settings say that no model is asked"}
	sayTooSlow    = talk.Say{Zh: "模型没有及时回答", En: "the model did not answer in time"}
	sayModelFails = talk.Say{Zh: "模型出错了", En: "the model failed"}
	sayGarbled    = talk.Say{Zh: "模型的回答无法使用", En: "the model's reply could not be used"}
)

// errOff says that a person wants no model to be asked.
var errOff = errors.New("the person wants no model")

// whyNot tells a person why no model had its say.
func whyNot(err error, l talk.Lang) string {
	failure, _ := errors.AsType[*talk.Failure](err)
	switch {
	case errors.Is(err, errOff):
		return sayOff.In(l)
	case errors.Is(err, ErrNoModel):
		return sayNoModel.In(l)
	case errors.Is(err, context.DeadlineExceeded), failure != nil && failure.Code == talk.TimedOut:
		return sayTooSlow.In(l)
	case errors.Is(err, errUnusable):
		return sayGarbled.In(l)
	}
	return sayModelFails.In(l)
}

// askModel asks a person's model, unless they want none.
func (s *Service) askModel(ctx context.Context, l *Learner, limit time.Duration, text string, image *talk.Image) (string, error) {
	switch {
	case strings.EqualFold(l.Profile.Bot, "none"):
		return "", errOff
	case s.Model == nil:
		return "", ErrNoModel
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	reply, err := s.Model(ctx, l.Person, Prompt{Bot: l.Profile.Bot, Text: text, Image: image})
	if err != nil {
		// What a bot says about an ended context need not be that error.
		if cause := ctx.Err(); cause != nil {
			err = errors.Join(err, cause)
		}
		return "", err
	}
	return plainReply(reply), nil
}

// plainReply is a reply without what the model thought before.
func plainReply(reply string) string {
	if i := strings.LastIndex(reply, "</think>"); i >= 0 {
		reply = reply[i+len("</think>"):]
	}
	return strings.TrimSpace(clip(strings.ToValidUTF8(reply, ""), maxReply))
}

// logModel notes that a model had no say, unless that is how it is meant.
func (s *Service) logModel(ctx context.Context, what string, err error) {
	if !errors.Is(err, errOff) && !errors.Is(err, ErrNoModel) {
		s.Logger.WarnContext(ctx, "a model could not be used", "for", what, "error", err)
	}
}

// data writes texts of strangers as JSON on one line: whatever they say, they
// cannot look like a line of the prompt.
func data(v any) string {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return "{}" // only what is no text
	}
	return strings.TrimSpace(b.String())
}

func shown(text string) string { return clip(strings.TrimSpace(text), maxShown) }

// languageName is how a prompt names a language.
func languageName(l talk.Lang) string {
	if l == talk.Chinese {
		return "Chinese (简体中文)"
	}
	return "English"
}

// findObject finds the JSON object in a reply that has the most of the fields; of
// those that have as many, the last. Text around it, code fences and other objects
// do not matter.
func findObject(reply string, fields ...string) map[string]json.RawMessage {
	var best map[string]json.RawMessage
	most := 0
	for from, tries := 0, 0; tries < maxObjects; tries++ {
		i := strings.IndexByte(reply[from:], '{')
		if i < 0 {
			break
		}
		from += i
		dec := json.NewDecoder(strings.NewReader(reply[from:]))
		var object map[string]json.RawMessage
		if dec.Decode(&object) != nil {
			from++
			continue
		}
		for name, value := range object {
			if small := strings.ToLower(strings.TrimSpace(name)); small != name && object[small] == nil {
				object[small] = value
			}
		}
		have := 0
		for _, f := range fields {
			if _, ok := object[f]; ok {
				have++
			}
		}
		if have > 0 && have >= most {
			best, most = object, have
		}
		if have > 0 {
			from += int(dec.InputOffset())
		} else {
			from++ // it may be inside
		}
	}
	return best
}

// textOf reads a text, whatever a model made of it.
func textOf(raw json.RawMessage, most int) string {
	var s string
	if json.Unmarshal(raw, &s) != nil {
		var list []string
		if json.Unmarshal(raw, &list) == nil {
			s = strings.Join(list, " ")
		}
	}
	return line(s, most)
}

// line makes one line of a text, of so many characters at most.
func line(s string, most int) string {
	s = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || unicode.IsSpace(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s, ""))
	return short(strings.Join(strings.Fields(s), " "), most)
}

// short cuts a text to so many characters.
func short(s string, most int) string {
	if len(s) <= most {
		return s
	}
	if runes := []rune(s); len(runes) > most {
		return strings.TrimSpace(string(runes[:most-1])) + "…"
	}
	return s
}

// listOf reads a list of texts: an array of texts or of objects with a text, or
// one text. It is never nil.
func listOf(raw json.RawMessage, items, most int) []string {
	out := []string{}
	add := func(s string) {
		if s = line(strings.TrimLeft(s, "-*• \t\n"), most); s != "" && !nothing[strings.ToLower(strings.TrimRight(s, ".。"))] && len(out) < items {
			out = append(out, s)
		}
	}
	var one string
	if json.Unmarshal(raw, &one) == nil {
		for part := range strings.Lines(one) {
			add(part)
		}
		return out
	}
	var list []json.RawMessage
	if json.Unmarshal(raw, &list) != nil {
		return out
	}
	for _, raw := range list {
		var s string
		if json.Unmarshal(raw, &s) == nil {
			add(s)
			continue
		}
		var object map[string]json.RawMessage
		if json.Unmarshal(raw, &object) == nil {
			for _, name := range []string{"text", "point", "item", "content"} {
				if v, ok := object[name]; ok {
					add(textOf(v, most))
					break
				}
			}
		}
	}
	return out
}

// nothing is what models write into a list that should be empty.
var nothing = map[string]bool{"none": true, "n/a": true, "null": true, "nothing": true, "无": true, "没有": true}

// scorePattern is a score as a text: "85", "85%", "8.5/10".
var scorePattern = regexp.MustCompile(`^\s*(-?\d{1,9}(?:\.\d{1,9})?)\s*(?:/\s*(\d{1,9}))?`)

// scoreOf reads a score from 0 to 100.
func scoreOf(raw json.RawMessage) (int, bool) {
	text := string(raw)
	var s string
	if json.Unmarshal(raw, &s) == nil {
		text = s
	}
	m := scorePattern.FindStringSubmatch(text)
	if m == nil {
		return 0, false
	}
	v, err := strconv.ParseFloat(m[1], 64)
	if err != nil {
		return 0, false
	}
	of, _ := strconv.ParseFloat(m[2], 64)
	switch {
	case of > 0:
		v = v / of * 100
	case v > 0 && v < 1:
		v *= 100 // a share
	}
	return int(math.Round(min(max(v, 0), 100))), true
}
