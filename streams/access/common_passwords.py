"""Passwords of twelve characters and more that everybody tries first, and the words they are made of."""

from typing import Final

COMMON: Final = frozenset(
    """
    1q2w3e4r5t6y 1q2w3e4r5t6y7u8i 1qaz2wsx3edc 1qaz2wsx3edc4rfv 1qazxsw23edc 123qweasdzxc 123qweasd123
    qweasdzxc123 qazwsxedcrfv qazwsxedc123 zaq12wsxcde3 zaq1xsw2cde3 q1w2e3r4t5y6 q1w2e3r4t5y6u7i8
    a1b2c3d4e5f6 a1s2d3f4g5h6 1a2b3c4d5e6f asdfghjkl123 asdf1234asdf qwer1234qwer qwerasdfzxcv
    qwertyasdfgh qwertyuiop12 qwertyuiop123 qwerty123456 qwerty1234567 qwerty12345678 1234qwerasdf
    1234567890qw 1234567890qwe 12345qwertasd zxcvbnmasdfg zxcvbnm12345 poiuytrewq12 mnbvcxzlkjhg
    112233445566 121212121212 123123123123 123321123321 123456654321 111222333444 147258369147
    159357456852 987654321987 741852963741 010203040506 102030405060 314159265358 271828182845
    unbelievable motherfucker administrator heytherebuddy correcthorsebatterystaple
    thisisapassword thisismypassword mypasswordis iforgotmypassword trustnoone123 opensesame123
    letmeinplease youshallnotpass maytheforcebewithyou tobeornottobe onceuponatime
    """.split()  # noqa: SIM905 - a list to be read, not one word a line
)
"""In lower case. A list of facts, not of anybody's file; shorter ones are refused for their length."""

WORDS: Final = frozenset(
    """
    abc abcd abcdef access account admin administrator adobe amanda america andrea andrew angel angela anthony
    apple arsenal asdf asdfgh asdfghjkl ashley azerty banana baseball basketball batman bond boomer buster
    butterfly cameron changeme charlie cheese chelsea chicken chocolate chris company computer cookie corvette
    daniel default demo diamond dragon eagle enter family ferrari flower football freedom friend friends fuck
    fuckyou george ginger google guest guitar hannah happy harley hello hockey hunter iloveu iloveyou internet
    jasmine jennifer jessica jesus jordan joshua justin killer king ladies lakers letmein liverpool login love
    lovely loveme lover maggie manager marina martin maverick master matrix matthew melissa merlin mercedes
    michael michelle midnight monkey monster morgan mother mustang mypassword naruto new nicole ninja nothing
    office oliver one orange pass passphrase passw passwd password pepper phoenix please pokemon princess
    purple qazwsx qwer qwert qwerty qwertyuiop rainbow ranger root samsung samantha scooter secret secure
    security server shadow silver slipknot snoopy soccer spring starwars steelers summer sunshine
    superman support system taylor temp temporary test tester testing thomas thunder tiger
    tigger trustno truelove user victoria welcome whatever william winter autumn yankees yellow
    january february march april june july august september october november december
    zxcv zxcvbn zxcvbnm monday tuesday wednesday thursday friday saturday sunday
    """.split()  # noqa: SIM905 - a list to be read, not one word a line
)
"""Two of these at most, with digits and signs around them, are no password."""
