package ankiconnect

import (
	"context"
	"crypto/md5"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"html"
	"path"
	"slices"
	"strings"

	"patchbay/internal/control"
	"patchbay/internal/plug/learn"
)

func mediaActions() map[string]*action {
	return map[string]*action{
		"storeMediaFile":     doing(toolAdd, (*exchange).storeMediaFile),
		"retrieveMediaFile":  doing(toolGet, (*exchange).retrieveMediaFile),
		"getMediaFilesNames": doing(toolList, (*exchange).mediaNames),
		"deleteMediaFile":    doing(toolDelete, (*exchange).deleteMediaFile),
	}
}

// mediaIn is a picture, a sound or a film as clients send it.
type mediaIn struct {
	Name     string   `json:"filename"`
	Data     string   `json:"data"` // base64
	Path     string   `json:"path"`
	URL      string   `json:"url"`
	SkipHash string   `json:"skipHash"` // MD5 of a file that is not stored
	Replace  *bool    `json:"deleteExisting"`
	Fields   []string `json:"fields"` // of a note, that show it
}

// mediaList is one of them or several.
type mediaList []mediaIn

// UnmarshalJSON implements [json.Unmarshaler].
func (l *mediaList) UnmarshalJSON(text []byte) error {
	var one mediaIn
	if len(text) > 0 && text[0] == '{' {
		err := json.Unmarshal(text, &one)
		*l = mediaList{one}
		return err
	}
	var many []*mediaIn
	if err := json.Unmarshal(text, &many); err != nil {
		return err
	}
	for _, m := range many {
		if m != nil {
			*l = append(*l, *m)
		}
	}
	return nil
}

func (x *exchange) storeMediaFile(ctx context.Context, in mediaIn) (any, error) {
	name, err := x.store(ctx, &in, in.Replace == nil || *in.Replace)
	if err != nil || name == "" {
		return nil, err
	}
	return name, nil
}

// store stores a file and returns its name; empty if it is the one of skipHash, which is skipped.
// With replace, it replaces another file of that name.
func (x *exchange) store(ctx context.Context, in *mediaIn, replace bool) (string, error) {
	switch {
	case in.Data == "" && in.Path == "" && in.URL == "":
		return "", clientError(`You must provide a "data", "path", or "url" field.`)
	case in.Data == "" && in.Path != "":
		return "", clientError("Patchbay reads no files of its machine; send the file as data")
	}
	if in.Data == "" {
		data, err := x.points.DownloadMedia(ctx, in.URL)
		if err != nil {
			return "", err
		}
		return x.storeData(ctx, in, data, replace)
	}
	data, err := base64.StdEncoding.DecodeString(strings.Join(strings.Fields(in.Data), ""))
	if err != nil {
		return "", clientError("data is not base64")
	}
	return x.storeData(ctx, in, data, replace)
}

func (x *exchange) storeData(ctx context.Context, in *mediaIn, data []byte, replace bool) (string, error) {
	// The protocol compares by MD5 (plugin/__init__.py, storeMediaFile); nothing is protected by
	// it.
	if sum := md5.Sum(data); in.SkipHash != "" && in.SkipHash == hex.EncodeToString(sum[:]) {
		return "", nil
	}
	save := x.learning.SaveMedia
	if replace {
		save = x.learning.ReplaceMedia
	}
	saved, err := save(ctx, x.caller, control.NewLearnMedia{Name: in.Name}, data)
	return saved.Name, err
}

// maxNoteMedia limits the pictures, sounds and films of a note.
const maxNoteMedia = 100

// media returns how many pictures, sounds and films a note brings.
func (in *noteIn) media() int { return len(in.Audio) + len(in.Video) + len(in.Picture) }

// checkMedia returns an error if a note brings too many.
func (in *noteIn) checkMedia() error {
	if in.media() > maxNoteMedia {
		return refusal("a note has %d pictures, sounds and films at most", maxNoteMedia)
	}
	return nil
}

// addMedia stores the pictures, sounds and films of a note and puts them into its fields. What
// cannot be stored is told in the fields, as AnkiConnect does.
func (x *exchange) addMedia(ctx context.Context, names, fields []string, in *noteIn) {
	for _, kind := range []struct {
		list        mediaList
		before, end string
	}{{in.Audio, "[sound:", "]"}, {in.Video, "[sound:", "]"}, {in.Picture, `<img src="`, `">`}} {
		for i := range kind.list {
			m := &kind.list[i]
			if len(m.Fields) == 0 {
				continue
			}
			name, err := x.store(ctx, m, m.Replace != nil && *m.Replace)
			text := ""
			switch {
			case err != nil:
				text = html.EscapeString(x.text(ctx, &request{Action: "storeMediaFile"}, err))
			case name != "" && kind.end != "]":
				text = kind.before + html.EscapeString(name) + kind.end
			case name != "":
				text = kind.before + name + kind.end
			}
			for _, field := range m.Fields {
				if at := slices.Index(names, field); at >= 0 {
					fields[at] += text
				}
			}
		}
	}
}

// fileParams names a file.
type fileParams struct {
	Name string `json:"filename"`
}

func (x *exchange) retrieveMediaFile(ctx context.Context, in fileParams) (any, error) {
	name, err := x.points.StoredMediaName(ctx, x.person, in.Name)
	if err != nil {
		return nil, err
	}
	_, data, err := x.learning.Media(ctx, x.caller, control.LearnMediaName{Name: name})
	if errors.Is(err, learn.ErrNoMedia) {
		return false, nil
	}
	if err != nil {
		return nil, err
	}
	return base64.StdEncoding.EncodeToString(data), nil
}

// mediaNames lists the names that fit a pattern, with * and ?.
func (x *exchange) mediaNames(ctx context.Context, in struct {
	Pattern *string `json:"pattern"`
}) (any, error) {
	pattern := "*"
	if in.Pattern != nil {
		pattern = *in.Pattern
	}
	if _, err := path.Match(pattern, ""); err != nil {
		return nil, clientError("pattern is not understood")
	}
	names := []string{}
	for after := ""; ; {
		page, err := x.points.MediaList(ctx, x.person, after, 1000)
		if err != nil {
			return nil, err
		}
		for _, m := range page {
			after = m.Name
			if ok, err := path.Match(pattern, m.Name); err == nil && ok {
				names = append(names, m.Name)
			}
		}
		if len(page) < 1000 {
			return names, nil
		}
	}
}

func (x *exchange) deleteMediaFile(ctx context.Context, in fileParams) (any, error) {
	name, err := x.points.StoredMediaName(ctx, x.person, in.Name)
	if err != nil {
		return nil, err
	}
	_, err = x.learning.RemoveMedia(ctx, x.caller, control.LearnMediaName{Name: name})
	if errors.Is(err, learn.ErrNoMedia) {
		err = nil
	}
	return nil, err
}
