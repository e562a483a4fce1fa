"""English words that the form of a question turns on: function words, question words, opposites, synonyms."""

from __future__ import annotations

from slipstream.cache.form import Asks


def words(listed: str) -> frozenset[str]:
    return frozenset(listed.split())


def _numbered(listed: str) -> dict[str, int]:
    """`1 first once|2 two` → word → number."""
    rows = [row.split() for row in listed.split("|")]
    return {word: int(row[0]) for row in rows for word in row[1:]}


FUNCTION = words(
    "'s a about according actually against all also am among an and another any are around as at be became "
    "because become been being between both but by call called can commonly considered could current currently "
    "did do does done down due during each either else else's ever every exactly find for found from generally "
    "get getting give got had happen happened happens has have having he her here him his how i if in into is it "
    "its just kind kinds known let like list list's look made make many may me mean means meant might mostly "
    "much must my name named now nowadays occur occurred of off often on one ones onto or other our out over own "
    "people per person place places please refer referred s said same say shall she should since so some someone "
    "something sort sorts such t take taken taking tell term than that the their them then there these they "
    "thing things this those through till to today took toward towards type types typically under until up upon "
    "us use used using usually via want was way ways we were what when where which while who whom whose why will "
    "with within would you your"
)
"""Words that may come and go. Prepositions among them still mark the words that follow."""

MARKERS = words(
    "about after against among as at before between by during for from in into of on onto over per since than "
    "through to toward towards under until upon via with within without"
)

NEGATIONS = words(
    "aren't arent can't cannot cant couldn't couldnt didn't didnt doesn't doesnt don't dont except excluding "
    "fail failed fails hadn't hasn't haven't isn't isnt lack lacked lacking lacks missing neither never no "
    "nobody none nor not nothing nowhere shouldn't unable unless wasn't wasnt weren't without won't wont "
    "wouldn't wouldnt"
)

NUMBERS = _numbered(
    "0 zero|1 first once|2 two second secondly twice|3 three third thrice|4 four fourth|5 five fifth|6 six sixth|"
    "7 seven seventh|8 eight eighth|9 nine ninth|10 ten tenth|11 eleven eleventh|12 twelve twelfth dozen|"
    "13 thirteen thirteenth|14 fourteen fourteenth|15 fifteen fifteenth|16 sixteen sixteenth|"
    "17 seventeen seventeenth|18 eighteen eighteenth|19 nineteen nineteenth|20 twenty twentieth|"
    "30 thirty thirtieth|40 forty fortieth|50 fifty fiftieth|60 sixty|70 seventy|80 eighty|90 ninety|"
    "100 hundred hundredth|1000 thousand|1000000 million|1000000000 billion"
)

DATES = _numbered(
    "1 january jan|2 february feb|3 march|4 april apr|5 may|6 june jun|7 july jul|8 august aug|"
    "9 september sept sep|10 october oct|11 november nov|12 december dec|13 monday|14 tuesday|15 wednesday|"
    "16 thursday|17 friday|18 saturday|19 sunday|20 spring|21 summer|22 autumn|23 winter"
)
"""`may` and `march` are dates only with a capital."""

OPPOSITES = (
    "before|after;first|last final;largest biggest greatest|smallest tiniest;highest|lowest;most|least;"
    "more|fewer less;earliest oldest|latest newest youngest;"
    "increase grow rise raise|decrease shrink fall reduce drop lower;"
    "begin began begun start open launch|end finish stop close cease;"
    "north northern|south southern;east eastern|west western;"
    "longest|shortest;major main primary|minor secondary;best|worst;win won|lose lost;above over|below beneath;"
    "maximum max|minimum min;inside indoor internal|outside outdoor external;public|private;positive|negative;"
    "higher|lower;greater larger bigger|smaller;upper|lower;support endorse favor favour|oppose resist;"
    "accept approve allow permit|reject refuse deny forbid forbidden ban prohibit;left|right;"
    "early earlier|late later;male man men|female woman women;strongest stronger|weakest weaker;"
    "richest richer rich|poorest poorer poor;arrive enter join|leave exit depart quit;buy purchase|sell;"
    "older|younger;longer|shorter;faster fastest|slower slowest;cause|prevent avoid;"
    "build built create establish found|destroy destroyed demolish abolish dissolve;"
    "on enable activate turn_on|off disable deactivate turn_off;import|export;"
    "advantage benefit pro|disadvantage drawback con;"
    "husband father son brother king|wife mother daughter sister queen;"
    "teacher employer buyer seller_of|student employee;attack|defend defense defence;"
    "hot warm hottest|cold cool coldest;true correct right_answer|false incorrect wrong;"
    "add insert install attach|remove delete uninstall detach;send|receive;borrow|lend;push|pull;encrypt|decrypt;"
    "encode|decode;upload|download;lock|unlock;show|hide;expand|collapse;birth born|death die died;"
    "love like|hate dislike;success succeed successful|failure fail unsuccessful;gain|loss;input|output;"
    "horizontal|vertical;ancient old|modern new;domestic|foreign;urban|rural;legal lawful|illegal unlawful;"
    "up|down;in_front ahead|behind;near close_to|far;heavy heavier|light lighter;deep deeper deepest|shallow;"
    "wide wider widest|narrow;thick|thin;majority|minority;offensive offense|defensive;ascend|descend;"
    "superior|inferior;wealthy|poor;victory|defeat;minimize|maximize;encourage|discourage;connect|disconnect;"
    "strengthen|weaken;odd|even;common|rare;simple easy|complex difficult hard;temporary|permanent;former|latter;"
    "previous|next;deposit|withdraw;credit|debit;debtor|creditor;hire|fire;absent|present;"
    "optional|required mandatory;include contain|exclude omit;guilty|innocent;dead|alive;wet|dry;full|empty;"
    "mercy|cruelty;winner|loser;ally|enemy;predator|prey"
)

SYNONYMS = (
    "big large size;launch start begin commence;finish end conclude;found establish create set_up;"
    "build construct erect;buy purchase;locate situate lie be_found;form consist;own possess;choose select pick;"
    "show display;live reside dwell;die decease pass_away;happen occur;"
    "reach attain obtain receive get gain win acquire;let permit allow;lead head chair command;leader head chief;"
    "film movie;car automobile;book volume;country nation state;firm company business;job profession occupation;"
    "kill murder assassinate;assassination assassinate;wed marry;marriage marry;help aid assist assistance;"
    "amount quantity number sum;cut reduce lower decrease;shrink decrease;big-city metropolis;majority most;"
    "nearly almost approximately roughly about;formation form;creation create;foundation found;"
    "construction build;attend go visit;alumnus alumni alumna;ancestor ancestry;provide give offer supply;"
    "link connect join;describe depict;symbol sign;illness disease sickness;"
    "produce manufacture make generate output;operate run operation;release publish issue;"
    "shortened abbreviate abbreviation;nickname moniker;cost price;pay salary wage;examine study investigate;"
    "challenge dispute contest;begin-with start;require need demand;perform execute conduct;defeat beat overcome;"
    "believe think hold consider;guess assume assumption;restore reinstate;convert transform change turn;"
    "goal aim objective purpose;reason cause why;allow enable;combine merge fuse;split divide separate;"
    "answer reply respond;big-money wealth;affect influence impact;famous well-known renowned;quick fast rapid;"
    "main primary principal chief major;entire whole;correct right;argue claim contend debate assert state;"
    "demonstrate demonstration;measure measurement gauge;decide determine decision;surround enclose encircle;"
    "settler colonist;settle settlement;discharge drain;residence residential;donate gift;sign ink;"
    "agreement pact accord treaty;support back endorse;author writer;write wrote written compose author;"
    "artist painter;paint painting;teach instruct;teacher instructor;lawyer attorney;kid child;guest attendee;"
    "earn make;discover find;plus and;additionally also;fight combat battle;highway road motorway;"
    "beginning start begin;born birth;birthplace born;death die died;married marry;capture seize;"
    "password passcode;sign-in login log-in;delete remove erase;modify edit change alter;fix repair;"
    "setup install;house home;street road;shop store;picture image photo;error mistake fault;"
    "employee worker staff;refund reimburse;cancel terminate;subscribe subscription;ship deliver delivery;"
    "return send-back"
)
"""Groups of words that mean the same in a question, by hand; each word is folded to the first of its group."""

PHRASES = {
    "how many": "?how_many",
    "how much": "?how_many",
    "how long": "?how_long",
    "how large": "?size",
    "how big": "?size",
    "how old": "?age",
    "how far": "?distance",
    "how often": "?how_often",
    "what number of": "?how_many",
    "what amount of": "?how_many",
    "pass away": "die",
    "passed away": "die",
    "turn on": "turn_on",
    "turn off": "turn_off",
    "switch on": "turn_on",
    "switch off": "turn_off",
    "set up": "set_up",
    "in front": "in_front",
    "at a minimum": "minimum",
    "at least": "minimum",
    "at most": "maximum",
    "at a maximum": "maximum",
    "apart from": "besides",
    "aside from": "besides",
    "other than": "besides",
    "in addition to": "besides",
    "carry out": "perform",
    "take part": "involved",
    "took part": "involved",
    "taking part": "involved",
    "taken part": "involved",
}

ASKS: dict[Asks, str] = {
    "when": "year years date day month century decade era period time",
    "where": ("place location country city town state region nation area county province district continent village"),
    "who": (
        "person people man woman president king queen leader author writer inventor founder director actor "
        "player scientist member individual quarterback general emperor minister chancellor ceo artist "
        "character doctor"
    ),
    "why": "reason cause caused causes purpose motive prompted prompt lead led result",
    "how_many": (
        "number amount percentage percent population quantity total size height length width weight distance "
        "temperature age speed cost price score ranking rank rate"
    ),
    "how": "way manner method style process means",
}
"""What a noun behind `what` or `which` asks for."""
