package learn

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"html"
	"maps"
	"regexp"
	"slices"
	"strings"

	"patchbay/internal/i18n"
	"patchbay/internal/plug/learn/card"
	"patchbay/internal/store"
	"patchbay/internal/tool"
)

const (
	// maxMediaArgs is how many pictures and sounds one call stores.
	maxMediaArgs = 10
	// maxShownFile and maxShown limit the pictures and sounds in a result, each and together, in
	// bytes: models pay for them. What does not fit is named only.
	maxShownFile, maxShown = 1 << 20, 2 << 20
)

// Texts about media in arguments.
const (
	msgMediaWhat   = i18n.Message("give data (base64) or url for each picture or sound")
	msgMediaBase64 = i18n.Message("the data of a picture or sound is not base64")
)

// schemaMedia describes pictures and sounds of a new point.
const schemaMedia = `{"type":"array","maxItems":10,"description":"Pictures and sounds to store. Refer to them in question and answer by name: ![](cat.png), [sound:cat.mp3]; those that are not referred to are added to the answer","items":{"type":"object","properties":{` +
	`"name":{"type":"string","maxLength":255,"description":"File name, such as cat.png"},` +
	`"data":{"type":"string","description":"Content in base64; at most 16 MiB"},` +
	`"url":{"type":"string","maxLength":4000,"description":"Public address to fetch it from, instead of data"}}}}`

// schemaFields describes fields of notes.
const schemaFields = `{"type":"object","additionalProperties":{"type":"string"},"description":"Only for points that are cards of a note: new HTML of some fields, by name. All cards of the note change with it"}`

// mediaArg is a picture or sound in arguments.
type mediaArg struct {
	Name string `json:"name"`
	Data string `json:"data"`
	URL  string `json:"url"`
}

// storeOne stores a picture or sound of a call.
func (s *Service) storeOne(ctx context.Context, person string, m *mediaArg) (file store.MediaFile, err error) {
	switch {
	case m.Data != "":
		_, text, isURI := strings.Cut(m.Data, ";base64,")
		if !isURI {
			text = m.Data
		}
		data, err := base64.StdEncoding.DecodeString(strings.Join(strings.Fields(text), ""))
		if err != nil {
			return file, invalid(msgMediaBase64)
		}
		return s.SaveMedia(ctx, person, m.Name, data)
	case m.URL != "":
		return s.FetchMedia(ctx, person, m.Name, m.URL)
	}
	return file, invalid(msgMediaWhat)
}

// storeMedia stores the pictures and sounds of a call, and writes their names into its texts where
// they differ from those that it gave. What the texts do not refer to is added to the answer.
func (s *Service) storeMedia(ctx context.Context, c *tool.Call, list []mediaArg, question, answer *string) error {
	for _, m := range list[:min(len(list), maxMediaArgs)] {
		file, err := s.storeOne(ctx, c.Caller.Person, &m)
		if err != nil {
			return err
		}
		if !rename(m.Name, file.Name, question, answer) {
			*answer = strings.TrimSpace(*answer + "\n\n" + mediaRef(&file))
		}
	}
	return nil
}

// storeNoteMedia stores the pictures and sounds of a change of a card. What the changed fields do
// not refer to is added to the field of the answer, or to the last one, as it is.
func (s *Service) storeNoteMedia(ctx context.Context, c *tool.Call, a *arguments, p *store.Point) error {
	n, err := s.Note(ctx, p)
	if err != nil || n == nil {
		return err
	}
	fields, names := map[string]string{}, n.Names()
	if a.Fields != nil {
		maps.Copy(fields, *a.Fields)
	}
	last := names[len(names)-1]
	if _, answer, ok := simple(n.Type); ok {
		last = answer
		if a.Answer != nil {
			fields[answer], a.Answer = fieldOf(*a.Answer), nil
		}
	}
	for _, m := range a.Media[:min(len(a.Media), maxMediaArgs)] {
		file, err := s.storeOne(ctx, c.Caller.Person, &m)
		if err != nil {
			return err
		}
		found := false
		for name, value := range fields {
			if m.Name != "" && strings.Contains(value, m.Name) {
				fields[name], found = strings.ReplaceAll(value, m.Name, file.Name), true
			}
		}
		if !found {
			if _, changed := fields[last]; !changed {
				fields[last] = n.Fields[slices.Index(names, last)]
			}
			fields[last] += "<br>" + mediaHTML(&file)
		}
	}
	a.Fields = &fields
	return nil
}

// mediaHTML refers to a file in a field of a note.
func mediaHTML(f *store.MediaFile) string {
	if strings.HasPrefix(f.Type, "image/") {
		return `<img src="` + html.EscapeString(f.Name) + `">`
	}
	return "[sound:" + f.Name + "]"
}

// updateMedia stores the pictures and sounds of a change. For the answer it reads the present one,
// if the change gives none.
func (s *Service) updateMedia(ctx context.Context, c *tool.Call, a *arguments) error {
	e, err := s.Get(ctx, c.Caller.Person, a.ID)
	if err != nil {
		return err
	}
	if e.Note != 0 {
		return s.storeNoteMedia(ctx, c, a, &e.Point)
	}
	question, answer := e.Question, e.Answer
	if a.Question != nil {
		question = *a.Question
	}
	if a.Answer != nil {
		answer = *a.Answer
	}
	if err := s.storeMedia(ctx, c, a.Media, &question, &answer); err != nil {
		return err
	}
	a.Question, a.Answer = &question, &answer
	return nil
}

// rename replaces references to a file in texts. It reports whether there is one.
func rename(from, to string, texts ...*string) (found bool) {
	for _, text := range texts {
		for _, ref := range [][2]string{{"](", ")"}, {"[sound:", "]"}} {
			if from != "" && strings.Contains(*text, ref[0]+from+ref[1]) {
				found = true
				*text = strings.ReplaceAll(*text, ref[0]+from+ref[1], ref[0]+refName(ref[0], to)+ref[1])
			}
		}
	}
	return found
}

func refName(mark, name string) string {
	if mark == "](" {
		return strings.ReplaceAll(name, " ", "%20")
	}
	return name
}

// mediaRef returns how a text of Markdown refers to a file.
func mediaRef(m *store.MediaFile) string {
	if strings.HasPrefix(m.Type, "image/") {
		return "![](" + refName("](", m.Name) + ")"
	}
	return "[sound:" + m.Name + "]"
}

// WithMedia returns a text of Markdown with a reference to a picture or sound after it.
func WithMedia(text string, m *store.MediaFile) string {
	return strings.TrimSpace(text + "\n\n" + mediaRef(m))
}

// mediaMarks matches references to pictures and sounds.
var mediaMarks = regexp.MustCompile(`!\[([^\]]*)\]\([^)]*\)|\[sound:[^\]]*\]`)

// WithoutMedia returns a text of Markdown with the words of its pictures instead of them, for where
// only words are shown or spoken.
func WithoutMedia(text string) string {
	return strings.TrimSpace(mediaMarks.ReplaceAllString(text, "$1"))
}

// contentTypes are the media types that clients of MCP get as content, by the kind of block.
var contentTypes = map[string]string{"image/png": "image", "image/jpeg": "image", "image/gif": "image",
	"image/webp": "image", "audio/mpeg": "audio", "audio/wav": "audio", "audio/ogg": "audio", "audio/mp4": "audio",
	"audio/flac": "audio", "audio/aac": "audio", "audio/webm": "audio"}

// addMedia adds the pictures and sounds of a point to a result: those of its question, or of both
// sides. Covered pictures are left out of questions, as what covers them is not a part of them. A
// result without them is better than none, so errors are only logged.
func (s *Service) addMedia(ctx context.Context, res *tool.Result, p *store.Point, answer bool) *tool.Result {
	view, err := s.Card(ctx, p, card.MediaPath)
	if err != nil {
		s.Logger.WarnContext(ctx, "the pictures of a point could not be added to a result", "error", err)
		return res
	}
	names := view.FrontMedia
	if answer {
		names = slices.Compact(slices.Sorted(slices.Values(append(slices.Clone(names), view.BackMedia...))))
	} else if view.Covered {
		return res
	}
	left := maxShown
	for _, name := range names {
		m, data, err := s.Store.Learn.Media(ctx, p.Person, name)
		kind := contentTypes[m.Type]
		if err != nil || kind == "" || len(data) > min(maxShownFile, left) {
			continue
		}
		left -= len(data)
		block, err := json.Marshal(struct {
			Type string `json:"type"`
			Data []byte `json:"data"`
			MIME string `json:"mimeType"`
		}{kind, data, m.Type})
		if err != nil {
			continue
		}
		list := bytes.TrimSuffix(bytes.TrimSpace(res.Content), []byte("]"))
		res.Content = append(append(append(slices.Clone(list), ','), block...), ']')
	}
	return res
}
