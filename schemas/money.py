"""Amounts of money: exact decimals as strings, in a currency of ISO 4217 or a known digital asset (G39)."""

from decimal import Decimal
from typing import Annotated, Final

from pydantic import AfterValidator
from pydantic_core import PydanticCustomError

from schemas.base import Frozen, TextForm
from schemas.problems import ProblemCode

_ISO_4217: Final = """
AED AFN ALL AMD ANG AOA ARS AUD AWG AZN BAM BBD BDT BGN BHD BIF BMD BND BOB BOV BRL BSD BTN BWP BYN BZD CAD
CDF CHE CHF CHW CLF CLP CNY COP COU CRC CUP CVE CZK DJF DKK DOP DZD EGP ERN ETB EUR FJD FKP GBP GEL GHS GIP
GMD GNF GTQ GYD HKD HNL HTG HUF IDR ILS INR IQD IRR ISK JMD JOD JPY KES KGS KHR KMF KPW KRW KWD KYD KZT LAK
LBP LKR LRD LSL LYD MAD MDL MGA MKD MMK MNT MOP MRU MUR MVR MWK MXN MXV MYR MZN NAD NGN NIO NOK NPR NZD OMR
PAB PEN PGK PHP PKR PLN PYG QAR RON RSD RUB RWF SAR SBD SCR SDG SEK SGD SHP SLE SOS SRD SSP STN SVC SYP SZL
THB TJS TMT TND TOP TRY TTD TWD TZS UAH UGX USD USN UYI UYU UYW UZS VED VES VND VUV WST XAF XAG XAU XCD XCG
XDR XOF XPD XPF XPT XSU XUA YER ZAR ZMW ZWG
"""

_ASSETS: Final = """
AAVE ADA ALGO APT ARB ATOM AVAX BCH BNB BONK BTC BUSD CRO DAI DASH DOGE DOT EOS ETC ETH EURC EURT FIL FLOW
FDUSD FTM GRT GUSD HBAR ICP IMX INJ KAS LDO LINK LTC MATIC MKR NEAR NEO OP PAX PAXG PEPE POL PYUSD QNT RLUSD
RUNE SAND SHIB SNX SOL STETH SUI SUSDE TAO THETA TIA TON TRX TUSD UNI USDC USDE USDP USDS USDT VET WAVES WBTC
WETH WLD XAUT XLM XMR XRP XTZ XVG ZEC
"""

ASSETS: Final = frozenset(_ASSETS.split())
"""Codes of digital assets, by the symbols in common use; the list grows by review."""

CURRENCIES: Final = frozenset(_ISO_4217.split()) | ASSETS
"""Every code an amount may have: ISO 4217 without its codes for tests and for no currency, and assets."""

DECIMAL_PATTERN: Final = r"^(0|[1-9][0-9]{0,17})(\.[0-9]{1,18})?$"
"""No sign, exponent, space or leading zero; 18 digits on either side, as many as a wei needs."""

DecimalText = Annotated[
    str,
    TextForm(
        pattern=DECIMAL_PATTERN,
        words='Write an amount as a string such as "1500.50": digits, and behind a point 1 to 18 more.',
    ),
]
"""An exact decimal as its own text; never a binary fraction."""


def _known(code: str) -> str:
    if code not in CURRENCIES:
        message = "Input should be a currency of ISO 4217 such as EUR, or an asset code such as USDC"
        raise PydanticCustomError(ProblemCode.VALIDATION_FAILED, message)
    return code


Currency = Annotated[str, AfterValidator(_known)]
"""A code of `CURRENCIES`, in capital letters."""


class Money(Frozen):
    """An amount in a currency."""

    value: DecimalText
    currency: Currency

    @property
    def amount(self) -> Decimal:
        """The exact value."""
        return Decimal(self.value)

    @property
    def scaled(self) -> tuple[int, int]:
        """The value as an integer and how many of its digits stand behind the point."""
        whole, _, fraction = self.value.partition(".")
        return int(whole + fraction), len(fraction)
