package apkg

import (
	"maps"
	"slices"
)

// Fields of Notetype.Config, Notetype.Field.Config and Notetype.Template.Config
// (proto/anki/notetypes.proto; names of rslib/src/notetype/schema11.rs).
var (
	typeAttrs = []attr{{1, "type", attrNumber}, {2, "sortf", attrNumber}, {3, "css", attrText}, {4, "did", attrNull},
		{5, "latexPre", attrText}, {6, "latexPost", attrText}, {7, "latexsvg", attrBool}, {8, "req", attrRequirements},
		{9, "originalStockKind", attrSet}, {10, "originalId", attrSet}}
	fieldAttrs = []attr{{1, "sticky", attrBool}, {2, "rtl", attrBool}, {3, "font", attrText}, {4, "size", attrNumber},
		{5, "description", attrText}, {6, "plainText", attrBool}, {7, "collapsed", attrBool},
		{8, "excludeFromSearch", attrBool}, {9, "id", attrOptional}, {10, "tag", attrOptional},
		{11, "preventDeletion", attrBool}}
	templateAttrs = []attr{{1, "qfmt", attrText}, {2, "afmt", attrText}, {3, "bqfmt", attrText}, {4, "bafmt", attrText},
		{5, "did", attrNull}, {6, "bfont", attrText}, {7, "bsize", attrNumber}, {8, "id", attrOptional}}
)

// Fields of DeckConfig.Config (proto/anki/deck_config.proto; names of
// rslib/src/deckconfig/schema11.rs).
var optionAttrs = []attr{
	{1, "new.delays", attrFloats}, {2, "lapse.delays", attrFloats}, {3, "fsrsWeights", attrFloats},
	{4, "easyDaysPercentages", attrFloats}, {5, "fsrsParams5", attrFloats}, {6, "fsrsParams6", attrFloats},
	{9, "new.perDay", attrNumber}, {10, "rev.perDay", attrNumber}, {11, "new.initialFactor", attrFactor},
	{12, "rev.ease4", attrFloat}, {13, "rev.hardFactor", attrHard}, {14, "lapse.mult", attrFloat},
	{15, "rev.ivlFct", attrFloat}, {16, "rev.maxIvl", attrNumber}, {17, "lapse.minInt", attrNumber},
	{18, "new.ints", attrFirst}, {19, "new.ints", attrSecond}, {20, "new.order", attrOther1},
	{21, "lapse.leechAction", attrNumber}, {22, "lapse.leechFails", attrNumber}, {23, "autoplay", attrNot},
	{24, "maxTaken", attrNumber}, {25, "timer", attrSwitch}, {26, "replayq", attrNot}, {27, "new.bury", attrBool},
	{28, "rev.bury", attrBool}, {29, "buryInterdayLearning", attrBool}, {30, "newMix", attrNumber},
	{31, "interdayLearningMix", attrNumber}, {32, "newSortOrder", attrNumber}, {33, "reviewOrder", attrNumber},
	{34, "newGatherPriority", attrNumber}, {35, "newPerDayMinimum", attrNumber}, {36, "questionAction", attrNumber},
	{37, "desiredRetention", attrFloat}, {38, "stopTimerOnAnswer", attrBool}, {40, "sm2Retention", attrFloat},
	{41, "secondsToShowQuestion", attrFloat}, {42, "secondsToShowAnswer", attrFloat}, {43, "answerAction", attrNumber},
	{44, "waitForAudio", attrTrue}, {45, "weightSearch", attrText}, {46, "ignoreRevlogsBeforeDate", attrText},
}

// Fields of Deck.Common, Deck.Normal and Deck.Filtered (proto/anki/decks.proto; names of
// rslib/src/decks/schema11.rs). The day of the four counts is one field, which [deckRecord] sets.
var (
	deckAttrs = []attr{{1, "collapsed", attrBool}, {2, "browserCollapsed", attrBool}, {3, "timeToday", attrFirst},
		{4, "newToday", attrSecond}, {5, "revToday", attrSecond}, {6, "lrnToday", attrSecond}, {7, "timeToday", attrSecond}}
	normalAttrs = []attr{{1, "conf", attrNumber}, {2, "extendNew", attrNumber}, {3, "extendRev", attrNumber},
		{4, "desc", attrText}, {5, "md", attrSetBool}, {6, "reviewLimit", attrOptional}, {7, "newLimit", attrOptional},
		{8, "reviewLimitToday", attrDayLimit}, {9, "newLimitToday", attrDayLimit}, {10, "desiredRetention", attrPercent}}
	filteredAttrs = []attr{{1, "resched", attrBool}, {2, "terms", attrTerms}, {3, "delays", attrFloatsOrNull},
		{4, "previewDelay", attrNumber}, {5, "previewHardSecs", attrNumber}, {6, "previewGoodSecs", attrNumber},
		{7, "previewAgainSecs", attrNumber}}
)

// deckCounts are the attributes of a deck that count what was done on a day.
var deckCounts = []string{"newToday", "revToday", "lrnToday", "timeToday"}

// Attributes of the JSON that have a column of their own.
var (
	typeColumns  = []string{"id", "name", "mod", "usn", "flds", "tmpls"}
	pieceColumns = []string{"name", "ord"} // of fields and templates
	deckColumns  = []string{"id", "name", "mod", "usn", "dyn", "desc", "separate", "return"}
	rowColumns   = []string{"id", "name", "mod", "usn", "dyn"} // of options
)

// unknownKind is [unknownAttr] of the column kind of a deck.
const unknownKind = "_protobuf_kind"

// deckRecord makes the JSON of a deck from the columns common and kind.
func deckRecord(common, kind []byte) (record, error) {
	r := record{"desc": ""}
	if err := fromProto(r, common, deckAttrs); err != nil {
		return nil, err
	}
	day := r["timeToday"].([]any)[0]
	for _, name := range deckCounts {
		r[name].([]any)[0] = day
	}
	attrs, dynamic := normalAttrs, number(0)
	_, message, err := protoField(kind, 1)
	if err != nil {
		return nil, err
	}
	if _, filtered, _ := protoField(kind, 2); filtered != nil {
		attrs, message, dynamic, r["separate"] = filteredAttrs, filtered, number(1), true
	}
	r["dyn"] = dynamic
	inner := record{}
	if err := fromProto(inner, message, attrs); err != nil {
		return nil, err
	}
	if unknown := inner[unknownAttr]; unknown != nil {
		delete(inner, unknownAttr)
		inner[unknownKind] = unknown
	}
	maps.Copy(r, inner)
	return r, nil
}

// deckProto is the reverse of deckRecord.
func deckProto(r record) (common, kind []byte) {
	attrs, field := normalAttrs, uint64(1)
	if isTrue(r["dyn"]) {
		attrs, field = filteredAttrs, 2
	}
	known := slices.Concat(deckColumns, deckCounts, []string{unknownKind})
	inner := record{}
	for _, a := range attrs {
		known = append(known, a.name)
		if v, ok := r[a.name]; ok {
			inner[a.name] = v
		}
	}
	if unknown := r[unknownKind]; unknown != nil {
		inner[unknownAttr] = unknown
	}
	return toProto(r, deckAttrs, known...), appendBytes(nil, field, toProto(inner, attrs))
}
