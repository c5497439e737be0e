package learn

import (
	"context"
	"errors"
	"fmt"

	"patchbay/internal/store"
	"patchbay/internal/talk"
)

// ErrNoTag says that no point has a tag.
var ErrNoTag = errors.New("no point has this tag")

// TagThere is the error about a new name of a tag that is another tag's already: the two
// would become one, and could not be told apart again.
type TagThere struct {
	Tag    string
	Points int // that have it
}

func (e *TagThere) Error() string {
	return fmt.Sprintf("there is a tag %q already, which %d points have", e.Tag, e.Points)
}

// retagAtOnce is how many points get another tag in one transaction, so that others can
// write in between.
const retagAtOnce = 250

// CleanTag is a tag as points have it. Its error is an *[Invalid].
func CleanTag(text string) (string, error) {
	tags, err := cleanTags([]string{text})
	switch {
	case err != nil:
		return "", err
	case len(tags) == 0:
		return "", invalid(talk.Say{Zh: "标签需要名称", En: "a tag needs a name"})
	}
	return tags[0], nil
}

// RenameTag gives all points that have a tag another one in its place, those in the
// trash too, and says how many there were. If merge says so, it may be one that other
// points have. If it is cut off, the rest still have the old one, and who asks again gets
// it done; progress, which may be nil, hears how far it is. The tag as it is now comes
// back. The errors are [ErrNoTag],
// *[TagThere] and *[Invalid].
func (s *Service) RenameTag(ctx context.Context, person, from, to string, merge bool, progress func(done, total int)) (string, int, error) {
	total, err := s.Store.Learn.Tagged(ctx, person, from)
	if err != nil {
		return "", 0, fmt.Errorf("look up a tag: %w", err)
	}
	if total <= 0 {
		return "", 0, ErrNoTag
	}
	if to, err = CleanTag(to); err != nil || to == from {
		return to, 0, err
	}
	there, err := s.Store.Learn.Tagged(ctx, person, to)
	if err != nil {
		return "", 0, fmt.Errorf("look up a tag: %w", err)
	}
	if there > 0 && !merge {
		return "", 0, &TagThere{to, there}
	}
	words := func(p *store.Point) []string { return Words(p.Question, p.Answer, p.Tags...) }
	for done := 0; ; {
		n, err := s.Store.Learn.RenameTag(ctx, person, from, to, retagAtOnce, words)
		done += n
		if err != nil {
			return to, done, fmt.Errorf("rename a tag: %w", err)
		}
		if progress != nil {
			progress(done, max(done, total))
		}
		if n < retagAtOnce {
			return to, done, nil
		}
	}
}
