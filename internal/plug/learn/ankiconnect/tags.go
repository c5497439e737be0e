package ankiconnect

import (
	"context"
	"slices"
	"strings"

	"patchbay/internal/control"
	"patchbay/internal/plug/learn"
)

func tagActions() map[string]*action {
	return map[string]*action{
		"getTags":               doing(toolTags, (*exchange).getTags),
		"getNoteTags":           doing(toolGet, (*exchange).getNoteTags),
		"addTags":               doing(toolEdit, (*exchange).addTags),
		"removeTags":            doing(toolEdit, (*exchange).removeTags),
		"replaceTags":           doing(toolEdit, (*exchange).replaceTags),
		"replaceTagsInAllNotes": doing(toolEdit, (*exchange).replaceAllTags).and(toolUpdate),
		// There are no others: a tag is gone with its last point.
		"clearUnusedTags": doing(toolEdit, func(*exchange, context.Context, none) (any, error) { return nil, nil }),
	}
}

func (x *exchange) getTags(ctx context.Context, _ none) (any, error) { return x.tagNames(ctx) }

// tagNames returns all tags.
func (x *exchange) tagNames(ctx context.Context) ([]string, error) {
	names := []string{}
	for after := ""; ; {
		page, err := x.points.Tags(ctx, x.person, after, 1000)
		if err != nil {
			return nil, err
		}
		for _, t := range page {
			names = append(names, t.Tag)
			after = t.Tag
		}
		if len(page) < 1000 {
			return names, nil
		}
	}
}

func (x *exchange) getNoteTags(ctx context.Context, in struct {
	Note int64 `json:"note"`
}) (any, error) {
	n, err := x.note(ctx, in.Note)
	if err != nil {
		return nil, err
	}
	return n.Tags(), nil
}

func (x *exchange) updateNoteTags(ctx context.Context, in struct {
	Note int64   `json:"note"`
	Tags tagList `json:"tags"`
}) (any, error) {
	return nil, x.setTags(ctx, in.Note, in.Tags)
}

// setTags gives all cards of a note these tags and no others.
func (x *exchange) setTags(ctx context.Context, id int64, tags []string) error {
	n, err := x.note(ctx, id)
	if err != nil {
		return err
	}
	var want []string
	for _, tag := range tags {
		if strings.TrimSpace(tag) == "" {
			continue
		}
		tag, err := learn.NormalizeTag(tag)
		if err != nil {
			return err
		}
		want = append(want, tag)
	}
	drop := slices.DeleteFunc(n.Tags(), func(tag string) bool { return slices.Contains(want, tag) })
	if len(want) == 0 && len(drop) == 0 {
		return nil
	}
	return x.edit(ctx, n.PointIDs(), control.LearnEdit{AddTags: want, RemoveTags: drop})
}

// noteTags are notes and tags, with spaces between them.
type noteTags struct {
	noteIDsParams
	Tags tagList `json:"tags"`
}

func (x *exchange) addTags(ctx context.Context, in noteTags) (any, error) {
	points, err := x.pointsOf(ctx, in.Notes)
	if err != nil || len(in.Tags) == 0 {
		return nil, err
	}
	return nil, x.edit(ctx, points, control.LearnEdit{AddTags: in.Tags})
}

func (x *exchange) removeTags(ctx context.Context, in noteTags) (any, error) {
	notes, err := x.notes(ctx, in.Notes)
	if err != nil {
		return nil, err
	}
	points, spelt := tagged(notes, in.Tags)
	return nil, x.edit(ctx, points, control.LearnEdit{RemoveTags: spelt})
}

// tagged returns the points of the notes that have one of some tags, in whatever case, and how they
// spell these.
func tagged(notes map[int64]*learn.AnkiNote, tags []string) (points, spelt []string) {
	for _, n := range notes {
		has := false
		for _, tag := range n.Tags() {
			if slices.ContainsFunc(tags, func(t string) bool { return strings.EqualFold(t, tag) }) {
				has, spelt = true, append(spelt, tag)
			}
		}
		if has {
			points = append(points, n.PointIDs()...)
		}
	}
	slices.Sort(spelt)
	return points, slices.Compact(spelt)
}

// replacing is a tag and what replaces it.
type replacing struct {
	From string `json:"tag_to_replace"`
	To   string `json:"replace_with_tag"`
}

// replaceTags replaces a tag of those notes that have it.
func (x *exchange) replaceTags(ctx context.Context, in struct {
	noteIDsParams
	replacing
}) (any, error) {
	notes, err := x.notes(ctx, in.Notes)
	if err != nil {
		return nil, err
	}
	points, spelt := tagged(notes, []string{in.From})
	to, err := learn.NormalizeTag(in.To)
	if err != nil {
		return nil, err
	}
	spelt = slices.DeleteFunc(spelt, func(tag string) bool { return tag == to })
	return nil, x.edit(ctx, points, control.LearnEdit{AddTags: []string{to}, RemoveTags: spelt})
}

// replaceAllTags replaces a tag, in whatever case it is spelt, of all notes.
func (x *exchange) replaceAllTags(ctx context.Context, in replacing) (any, error) {
	names, err := x.tagNames(ctx)
	if err != nil {
		return nil, err
	}
	for _, tag := range names {
		if !strings.EqualFold(tag, in.From) {
			continue
		}
		rename := control.LearnTagRename{Tag: tag, Name: in.To, Merge: true}
		if _, err := x.learning.RenameTag(ctx, x.caller, rename); err != nil {
			return nil, err
		}
	}
	return nil, nil
}
