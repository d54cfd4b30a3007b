"""What the demo shop sells and who buys there: fixed lists."""

from __future__ import annotations

# SKU, name, category, price in euros, stock, reorder level
PRODUCTS: tuple[tuple[str, str, str, str, int, int], ...] = (
    ("COF-BJ-1000", "Espresso “Black Jack”, 1 kg", "coffee", "27.50", 84, 30),
    ("COF-BJ-250", "Espresso “Black Jack”, 250 g", "coffee", "8.40", 130, 40),
    ("COF-YIR-1000", "Ethiopia Yirgacheffe, 1 kg", "coffee", "34.00", 12, 20),
    ("COF-YIR-250", "Ethiopia Yirgacheffe, 250 g", "coffee", "9.90", 61, 30),
    ("COF-HUE-1000", "Guatemala Huehuetenango, 1 kg", "coffee", "31.00", 40, 20),
    ("COF-HUE-250", "Guatemala Huehuetenango, 250 g", "coffee", "9.20", 75, 30),
    ("COF-SUL-250", "Sulawesi Toraja, 250 g", "coffee", "10.80", 9, 15),
    ("COF-DEC-250", "Decaf “Quiet Evening”, 250 g", "coffee", "9.60", 44, 20),
    ("COF-DEC-1000", "Decaf “Quiet Evening”, 1 kg", "coffee", "32.00", 18, 10),
    ("COF-FIL-500", "House filter blend, 500 g", "coffee", "13.50", 97, 40),
    ("COF-ADV-24", "Coffee advent calendar, 24 × 30 g", "coffee", "49.90", 6, 25),
    ("TEA-EAR-100", "Earl Grey, 100 g", "tea", "6.90", 58, 20),
    ("TEA-ASS-100", "Assam second flush, 100 g", "tea", "7.80", 36, 20),
    ("TEA-SEN-100", "Sencha, 100 g", "tea", "9.40", 27, 15),
    ("TEA-ROO-100", "Rooibos vanilla, 100 g", "tea", "5.60", 63, 20),
    ("TEA-MIN-50", "Moroccan mint, 50 g", "tea", "4.20", 71, 20),
    ("TEA-CHA-100", "Masala chai, 100 g", "tea", "6.40", 14, 15),
    ("BRW-V60-02", "Dripper V60, ceramic", "brewing", "24.90", 22, 10),
    ("BRW-PAP-100", "Filter papers, 100 pieces", "brewing", "4.95", 210, 60),
    ("BRW-AER", "AeroPress", "brewing", "34.90", 17, 10),
    ("BRW-FRE-8", "French press, 8 cups", "brewing", "39.90", 13, 8),
    ("BRW-MOK-6", "Moka pot, 6 cups", "brewing", "29.90", 19, 8),
    ("BRW-GRI-H", "Hand grinder, steel burrs", "brewing", "79.00", 7, 8),
    ("BRW-SCA", "Brewing scale with timer", "brewing", "44.50", 15, 8),
    ("BRW-KET", "Gooseneck kettle, 0.8 l", "brewing", "59.00", 11, 6),
    ("BRW-DES-6", "Descaler, 6 tablets", "brewing", "7.50", 88, 30),
    ("CUP-ESP-2", "Espresso cups, set of 2", "cups", "16.50", 33, 10),
    ("CUP-CAP-2", "Cappuccino cups, set of 2", "cups", "21.00", 26, 10),
    ("CUP-GLA-2", "Double-walled glasses, set of 2", "cups", "18.90", 5, 10),
    ("CUP-TRA", "Travel mug, 0.35 l", "cups", "22.50", 41, 15),
    ("CUP-MUG", "Stoneware mug “Beanstalk”", "cups", "12.90", 52, 20),
    ("CUP-POT", "Teapot with strainer, 1 l", "cups", "36.00", 10, 6),
)

FIRST_NAMES = (
    *("Anna", "Ben", "Clara", "David", "Elif", "Finn", "Greta", "Hannes", "Ida", "Jonas", "Katrin"),
    *("Lukas", "Mira", "Nils", "Olga", "Paul", "Rosa", "Samir", "Tilda", "Uwe", "Vera", "Willem"),
    *("Yara", "Zoe", "Bram", "Chiara", "Dario", "Emma", "Felix", "Hugo", "Lena", "Marta"),
)
LAST_NAMES = (
    *("Albrecht", "Becker", "Claes", "Dietz", "Engel", "Fischer", "Gruber", "Hofer", "Ivanova", "Jansen"),
    *("Keller", "Lang", "Meier", "Novak", "Okafor", "Peters", "Quast", "Roth", "Schmid", "Teuber"),
    *("Ulrich", "Vogel", "Wagner", "Yilmaz", "Zeller", "Bianchi", "Cohen", "Duval"),
)
# City, country, language
PLACES: tuple[tuple[str, str, str], ...] = (
    ("Leipzig", "DE", "de"),
    ("Hamburg", "DE", "de"),
    ("München", "DE", "de"),
    ("Köln", "DE", "de"),
    ("Freiburg", "DE", "de"),
    ("Wien", "AT", "de"),
    ("Graz", "AT", "de"),
    ("Zürich", "CH", "de"),
    ("Utrecht", "NL", "nl"),
    ("Gent", "BE", "nl"),
    ("Lyon", "FR", "fr"),
    ("Malmö", "SE", "en"),
)
CARRIERS = ("DHL", "DPD", "GLS", "Post AT")
WHOLE_REFUND_REASONS = ("Parcel lost by the carrier", "Returned within 30 days", "Arrived damaged")
LINE_REFUND_REASONS = ("Returned within 30 days", "Arrived damaged", "Goodwill")
