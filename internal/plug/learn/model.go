package learn

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode"

	"patchbay/internal/i18n"
	"patchbay/internal/talk"
)

const (
	// judgeTimeout limits how long a model may judge a recall while the person waits with glasses
	// on. writeTimeout is the limit for answers and drafts.
	judgeTimeout = 30 * time.Second
	writeTimeout = 60 * time.Second
	// maxPromptText limits one text in a prompt, in bytes: more would not fit into many models.
	maxPromptText = 16 << 10
	// maxReply limits how much of a model's reply is parsed, in bytes.
	maxReply = 64 << 10
	// maxObjects is how many positions of a reply are tried as the start of an object, so that a
	// reply full of brackets stays cheap to parse.
	maxObjects = 40
)

// errUnusable is returned when a model's reply does not have the requested form.
var errUnusable = errors.New("the model's reply cannot be used")

// Reasons why no model answered.
const (
	msgNoModel    = i18n.Message("no model is set up")
	msgOff        = i18n.Message("the settings say that no model is asked")
	msgTooSlow    = i18n.Message("the model did not answer in time")
	msgModelFails = i18n.Message("the model failed")
	msgGarbled    = i18n.Message("the model's reply could not be used")
)

// errModelDisabled is returned when the person has disabled models.
var errModelDisabled = errors.New("the person wants no model")

// noModelReason explains to a person why no model answered.
func noModelReason(err error, l i18n.Lang) string {
	failure, _ := errors.AsType[*talk.Failure](err)
	switch {
	case errors.Is(err, errModelDisabled):
		return msgOff.In(l)
	case errors.Is(err, ErrNoModel):
		return msgNoModel.In(l)
	case errors.Is(err, context.DeadlineExceeded), failure != nil && failure.Code == talk.TimedOut:
		return msgTooSlow.In(l)
	case errors.Is(err, errUnusable):
		return msgGarbled.In(l)
	}
	return msgModelFails.In(l)
}

// askModel asks the person's model. It fails with errModelDisabled if they disabled it.
func (s *Service) askModel(ctx context.Context, l *Learner, limit time.Duration, text string,
	image *talk.Image) (string, error) {
	switch {
	case strings.EqualFold(l.Profile.Bot, "none"):
		return "", errModelDisabled
	case s.Model == nil:
		return "", ErrNoModel
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	reply, err := s.Model(ctx, l.Person, Prompt{Bot: l.Profile.Bot, Text: text, Image: image})
	if err != nil {
		// After the context ends, a bot may return a different error.
		if cause := ctx.Err(); cause != nil {
			err = errors.Join(err, cause)
		}
		return "", err
	}
	return stripReasoning(reply), nil
}

// stripReasoning removes the model's reasoning from the start of a reply.
func stripReasoning(reply string) string {
	if i := strings.LastIndex(reply, "</think>"); i >= 0 {
		reply = reply[i+len("</think>"):]
	}
	return strings.TrimSpace(truncateBytes(strings.ToValidUTF8(reply, ""), maxReply))
}

// logModel logs that a model gave no answer, unless none is configured.
func (s *Service) logModel(ctx context.Context, what string, err error) {
	if !errors.Is(err, errModelDisabled) && !errors.Is(err, ErrNoModel) {
		s.Logger.WarnContext(ctx, "a model could not be used", "for", what, "error", err)
	}
}

// quoteJSON encodes untrusted texts as one line of JSON, so that they cannot imitate a line of the
// prompt.
func quoteJSON(v any) string {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return "{}" // only values that JSON cannot encode fail
	}
	return strings.TrimSpace(b.String())
}

func promptText(text string) string { return truncateBytes(strings.TrimSpace(text), maxPromptText) }

// languageName returns the name of a language for a prompt.
func languageName(l i18n.Lang) string {
	if l == i18n.English {
		return "English"
	}
	return fmt.Sprintf("%s (%s)", l.EnglishName(), l.Name())
}

// findObject returns the JSON object in a reply that has the most of the fields; among equals, the
// last. It ignores surrounding text, code fences and other objects.
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
			from++ // the object may be inside this one
		}
	}
	return best
}

// textOf returns a JSON value as one line of text, whatever its type.
func textOf(raw json.RawMessage, most int) string {
	var s string
	if json.Unmarshal(raw, &s) != nil {
		var list []string
		if json.Unmarshal(raw, &list) == nil {
			s = strings.Join(list, " ")
		}
	}
	return oneLine(s, most)
}

// oneLine joins a text into one line of at most most characters.
func oneLine(s string, most int) string {
	s = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || unicode.IsSpace(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s, ""))
	return truncateRunes(strings.Join(strings.Fields(s), " "), most)
}

// truncateRunes cuts a text to at most most characters.
func truncateRunes(s string, most int) string {
	if len(s) <= most {
		return s
	}
	if runes := []rune(s); len(runes) > most {
		return strings.TrimSpace(string(runes[:most-1])) + "…"
	}
	return s
}

// listOf reads a list of texts: an array of texts, an array of objects with a text, or a single
// text. The result is never nil.
func listOf(raw json.RawMessage, items, most int) []string {
	out := []string{}
	add := func(s string) {
		if s = oneLine(strings.TrimLeft(s, "-*• \t\n"), most); s != "" &&
			!emptyWords[strings.ToLower(strings.TrimRight(s, ".。"))] && len(out) < items {
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

// emptyWords are words that models write into a list that should be empty.
var emptyWords = map[string]bool{"none": true, "n/a": true, "null": true, "nothing": true, "无": true, "没有": true}

// scorePattern matches a score as text: "85", "85%", "8.5/10".
var scorePattern = regexp.MustCompile(`^\s*(-?\d{1,9}(?:\.\d{1,9})?)\s*(?:/\s*(\d{1,9}))?`)

// scoreOf reads a score from 0 to 100. ok is false if there is none.
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
		v *= 100 // a fraction from 0 to 1
	}
	return int(math.Round(min(max(v, 0), 100))), true
}
