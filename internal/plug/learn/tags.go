package learn

import (
	"context"
	"errors"
	"fmt"

	"patchbay/internal/i18n"
	"patchbay/internal/store"
)

// ErrTagNotFound is returned when no point has the tag.
var ErrTagNotFound = errors.New("no point has this tag")

// TagExistsError is returned when a tag would be renamed to an existing tag: the two would merge
// and could not be separated again.
type TagExistsError struct {
	Tag    string
	Points int // points with the existing tag
}

func (e *TagExistsError) Error() string {
	return fmt.Sprintf("there is a tag %q already, which %d points have", e.Tag, e.Points)
}

// retagBatch is how many points get another tag in one transaction, so that other writers get their
// turn.
const retagBatch = 250

// NormalizeTag returns a tag in the form in which it is stored. The error is an *[Invalid].
func NormalizeTag(text string) (string, error) {
	tags, err := cleanTags([]string{text})
	switch {
	case err != nil:
		return "", err
	case len(tags) == 0:
		return "", invalid(i18n.Message("a tag needs a name"))
	}
	return tags[0], nil
}

// RenameTag renames a tag on all points, including those in the trash, and returns the new tag and
// the number of points. With merge set, the new tag may exist already. If RenameTag is interrupted,
// the remaining points keep the old tag, and a second call finishes the work. progress reports how
// far it is; it may be nil. The errors are [ErrTagNotFound], *[TagExistsError] and *[Invalid].
func (s *Service) RenameTag(ctx context.Context, person, from, to string, merge bool,
	progress func(done, total int)) (string, int, error) {
	total, err := s.Store.Learn.CountTagged(ctx, person, from)
	if err != nil {
		return "", 0, fmt.Errorf("look up a tag: %w", err)
	}
	if total <= 0 {
		return "", 0, ErrTagNotFound
	}
	if to, err = NormalizeTag(to); err != nil || to == from {
		return to, 0, err
	}
	there, err := s.Store.Learn.CountTagged(ctx, person, to)
	if err != nil {
		return "", 0, fmt.Errorf("look up a tag: %w", err)
	}
	if there > 0 && !merge {
		return "", 0, &TagExistsError{to, there}
	}
	words := func(p *store.Point) []string { return IndexWords(p.Question, p.Answer, p.Tags...) }
	for done := 0; ; {
		n, err := s.Store.Learn.RenameTag(ctx, person, from, to, retagBatch, words)
		done += n
		if err != nil {
			return to, done, fmt.Errorf("rename a tag: %w", err)
		}
		if progress != nil {
			progress(done, max(done, total))
		}
		if n < retagBatch {
			return to, done, nil
		}
	}
}

// Tags lists a person's tags by name, after one, with the number of their points.
func (s *Service) Tags(ctx context.Context, person, after string, limit int) ([]store.TagCount, error) {
	return s.Store.Learn.Tags(ctx, person, after, limit)
}

// CountTagged counts a person's points with a tag.
func (s *Service) CountTagged(ctx context.Context, person, tag string) (int, error) {
	return s.Store.Learn.CountTagged(ctx, person, tag)
}
