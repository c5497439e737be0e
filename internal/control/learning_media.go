package control

import (
	"context"
	"time"

	"patchbay/internal/plug/learn"
	"patchbay/internal/problem"
	"patchbay/internal/store"
)

// MaxLearnMedia limits a picture or sound, in bytes.
const MaxLearnMedia = learn.MaxMedia

// mediaMost limits a page of pictures and sounds.
const mediaMost = 1000

// LearnMediaPath is where programs find pictures and sounds.
const LearnMediaPath = "/api/v1/learn/media/"

// LearnMediaName names a picture or sound of a person.
type LearnMediaName struct {
	Name string `path:"name" json:"name"`
}

// NewLearnMedia describes a picture or sound to store; its content is the body.
type NewLearnMedia struct {
	// Name is the name that texts refer to; one that the content gives if it is empty or another
	// file has it.
	Name string `query:"name" json:"name"`
}

// LearnMediaFile is a picture or sound.
type LearnMediaFile struct {
	Name  string    `json:"name"` // what texts refer to: ![](name), [sound:name]
	Type  string    `json:"type"` // media type
	Size  int64     `json:"size"` // bytes
	Hash  string    `json:"sha256"`
	Added time.Time `json:"added_at"`
}

func learnMediaFile(m store.MediaFile) LearnMediaFile {
	return LearnMediaFile{m.Name, m.Type, m.Size, m.Hash, m.Added}
}

func learnMediaFiles(list []store.MediaFile) []LearnMediaFile {
	out := make([]LearnMediaFile, len(list))
	for i, m := range list {
		out[i] = learnMediaFile(m)
	}
	return out
}

// LearnMediaQuery selects pictures and sounds.
type LearnMediaQuery struct {
	After  string `query:"after"`  // next of the page before
	Limit  int    `query:"limit"`  // 1 to 1000; default: 1000
	Unused bool   `query:"unused"` // only those that no point uses, all at once
}

// LearnMediaList is a page of pictures and sounds, by name.
type LearnMediaList struct {
	Media []LearnMediaFile `json:"media"`
	Next  string           `json:"next,omitempty"` // value of after= for the next page
	Total int64            `json:"total_bytes"`    // of all that the person has
}

// MediaList lists pictures and sounds.
func (p *Learning) MediaList(ctx context.Context, c Caller, in LearnMediaQuery) (out LearnMediaList, err error) {
	person, err := p.person(c, "list_knowledge_points")
	if err != nil {
		return out, err
	}
	limit := min(max(in.Limit, 0), mediaMost)
	if limit == 0 {
		limit = mediaMost
	}
	var list []store.MediaFile
	if in.Unused {
		list, err = p.points.UnusedMedia(ctx, person)
	} else if list, err = p.points.MediaList(ctx, person, in.After, limit+1); len(list) > limit {
		list = list[:limit]
		out.Next = list[limit-1].Name
	}
	if err != nil {
		return out, LearnError(err)
	}
	out.Media = learnMediaFiles(list)
	out.Total, err = p.points.Store.Learn.MediaSize(ctx, person)
	return out, err
}

// SaveMedia stores a picture or sound.
func (p *Learning) SaveMedia(ctx context.Context, c Caller, in NewLearnMedia, data []byte) (out LearnMediaFile,
	err error) {
	return p.saveMedia(ctx, c, in, data, p.points.SaveMedia)
}

// ReplaceMedia stores a picture or sound in the place of the one that has its name. If the key may
// not delete, that one stays, and the new one gets another name.
func (p *Learning) ReplaceMedia(ctx context.Context, c Caller, in NewLearnMedia, data []byte) (LearnMediaFile, error) {
	save := p.points.ReplaceMedia
	if _, err := p.person(c, "delete_knowledge_point"); problem.Is(err, problem.Denied) {
		save = p.points.SaveMedia
	} else if err != nil {
		return LearnMediaFile{}, err
	}
	return p.saveMedia(ctx, c, in, data, save)
}

func (p *Learning) saveMedia(ctx context.Context, c Caller, in NewLearnMedia, data []byte,
	save func(ctx context.Context, person, name string, data []byte) (store.MediaFile, error)) (out LearnMediaFile,
	err error) {
	person, err := p.person(c, "create_knowledge_point")
	if err != nil {
		return out, err
	}
	err = p.recordChange(c, "save_media", in, func() error {
		m, err := save(ctx, person, in.Name, data)
		out = learnMediaFile(m)
		return err
	})
	return out, err
}

// Media returns a picture or sound with its content.
func (p *Learning) Media(ctx context.Context, c Caller, in LearnMediaName) (store.MediaFile, []byte, error) {
	person, err := p.person(c, "get_knowledge_point")
	if err != nil {
		return store.MediaFile{}, nil, err
	}
	m, data, err := p.points.Media(ctx, person, in.Name)
	return m, data, LearnError(err)
}

// RemoveMedia deletes a picture or sound for good.
func (p *Learning) RemoveMedia(ctx context.Context, c Caller, in LearnMediaName) (Done, error) {
	person, err := p.person(c, "delete_knowledge_point")
	if err != nil {
		return Done{}, err
	}
	err = p.recordChange(c, "delete_media", in, func() error { return p.points.RemoveMedia(ctx, person, in.Name) })
	return Done{err == nil}, err
}

// LearnMediaRemoved lists what was deleted.
type LearnMediaRemoved struct {
	Removed []LearnMediaFile `json:"removed"`
}

// RemoveUnusedMedia deletes the pictures and sounds that no point, note and note type uses.
func (p *Learning) RemoveUnusedMedia(ctx context.Context, c Caller, _ struct{}) (out LearnMediaRemoved, err error) {
	person, err := p.person(c, "delete_knowledge_point")
	if err != nil {
		return out, err
	}
	ctx, cancel := Detached(ctx)
	defer cancel()
	err = p.recordChange(c, "delete_unused_media", struct{}{}, func() error {
		list, err := p.points.RemoveUnusedMedia(ctx, person)
		out.Removed = learnMediaFiles(list)
		return err
	})
	return out, err
}

// LearnHTML is a point as a page shows it. Nothing in it runs, and its only addresses are those of
// its person's media, which begin with [LearnMediaPath].
type LearnHTML struct {
	Front string `json:"front"`
	Back  string `json:"back"`
	// CSS is the style of the note type. It belongs into a frame of its own, on an element body
	// with the classes card and card1, card2 …
	CSS   string   `json:"css,omitempty"`
	Media []string `json:"media"` // names of the pictures, sounds and fonts in it
}

// LearnNote is the note of which a point is a card.
type LearnNote struct {
	Type   string           `json:"type"`
	Card   int              `json:"card"`   // which of its cards the point is, from 1
	Points []string         `json:"points"` // ids of all its cards
	Fields []LearnNoteField `json:"fields"`
}

// LearnNoteField is a field of a note.
type LearnNoteField struct {
	Name  string `json:"name"`
	Value string `json:"value"` // HTML
}

// showPoint adds to a point how it is shown.
func (p *Learning) showPoint(ctx context.Context, e *learn.Entry, out *LearnPointDetail) error {
	view, err := p.points.Card(ctx, &e.Point, LearnMediaPath)
	if err != nil {
		return err
	}
	out.HTML = &LearnHTML{view.Front, view.Back, view.CSS, append([]string{}, view.Media...)}
	n, err := p.points.Note(ctx, &e.Point)
	if err != nil || n == nil {
		return err
	}
	out.Note = &LearnNote{Type: n.Type.Name, Card: e.Ord + 1}
	for i, name := range n.Names() {
		out.Note.Fields = append(out.Note.Fields, LearnNoteField{name, n.Fields[i]})
	}
	for i := range n.Points {
		out.Note.Points = append(out.Note.Points, n.Points[i].ID)
	}
	return nil
}
