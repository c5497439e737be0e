package schedule

import "patchbay/internal/store"

// ClassicDays are the days of the classic course, counted from the learner's day on
// which the point was created.
var ClassicDays = [4]int{1, 7, 16, 35}

// Course is the classic course of a point that was created on that day.
func Course(created store.Day) [len(ClassicDays)]store.Day {
	var days [len(ClassicDays)]store.Day
	for i, n := range ClassicDays {
		days[i] = created + store.Day(n)
	}
	return days
}

// Resume gives the dates of what is left of the classic course to a point that
// changes over to it after done successful reviews, the last of them on the day
// last (if done is 0, last does not matter). While the next date of its course still
// lies after today, it goes on there. Else the rest keeps its gaps, counted from
// the last review, or for what was never reviewed from its creation; what would lie
// in the past begins today. There is nothing left after four reviews.
func Resume(done int, created, last, today store.Day) []store.Day {
	done = max(done, 0)
	if done >= len(ClassicDays) {
		return nil
	}
	course := Course(created)
	left := course[done:]
	if left[0] > today {
		return left
	}
	before, at := 0, created
	if done > 0 {
		before, at = ClassicDays[done-1], last
	}
	for i := range left {
		n := ClassicDays[done+i]
		at = max(at+store.Day(n-before), today)
		left[i], before = at, n
	}
	return left
}
